/*
 * The owner of the image store.
 *
 * Theory of operation of giving it away. Root walks through a tree, as root: no other user may be able
 * to change that tree meanwhile, and nothing may be given that is not the store's.
 *
 *   1. The store's directory is root's, and only root can write to it.
 *   2. Every image is locked as for its removal, every builder's lock is taken: no other Cloister of
 *      root loses what it works with.
 *   3. A directory is given after all that is in it. So each directory that is read is still root's.
 *      One that is the user's already was given completely, by a process that was killed then: it is
 *      not entered, because the user could have put a link or a second name of a file there.
 *   4. The store itself is given last, after a walk that found nothing to give. The first walk gives
 *      nothing: what is refused leaves the store as it was.
 *
 * What a store does not have is an error: names that are not of a store, other file systems, devices,
 * files with several names, directories that others can write to, files of a third user.
 */
#include "supervisor/monitor/image/image-store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/places.h"
#include "policy/package-set.h"
#include "policy/python-version.h"

/* ---- which image sessions are made of ---- */

static int stamp(const char *path, struct image_stamp *ret)
{
        struct stat st;

        if (stat(path, &st) < 0)
                return -errno;
        *ret = (struct image_stamp){.inode = st.st_ino,
                                    .size = (uint64_t)st.st_size,
                                    .mtime_ns = st.st_mtim.tv_sec * 1000000000LL +
                                                st.st_mtim.tv_nsec};
        return 0;
}

int image_choice_default_name(const struct image_choice *choice, const char *parts,
                              const char *node_parts, char ret[IMAGE_NAME_SIZE], struct error *err)
{
        int r = image_default_name(choice->python, parts, stamp, ret, err);
        if (r >= 0)
                r = image_name_add_node(ret, choice->node, node_parts, stamp, err);
        return r < 0 ? r : image_name_add_pyodide(ret, choice->pyodide, stamp, err);
}

int image_choice_check(const struct image_choice *choice, struct error *err)
{
        char name[IMAGE_NAME_SIZE];

        if (python_version_is_meant(choice->python))
                return 0;
        return choice->is_default ? image_choice_default_name(choice, NULL, NULL, name, err) : 0;
}

static int choose_place(const char *python, struct image_choice *ret, struct error *err)
{
        char state[PATH_MAX];
        struct image_store_env env = {
                .store = getenv("CLOISTER_IMAGE_STORE"),
                .state = place_service_state(state, sizeof(state)) ? state : NULL,
                .data_home = getenv("XDG_DATA_HOME"),
                .home = path_home(),
        };

        int r = image_store_path(geteuid(), &env, ret->store, sizeof(ret->store), err);
        if (r < 0)
                return r;
        if (!python)
                python = IMAGE_PYTHON_DEFAULT;
        if ((size_t)snprintf(ret->python, sizeof(ret->python), "%s", python) >= sizeof(ret->python))
                return error_set(err, ENAMETOOLONG, "the path of the interpreter is too long");
        return 0;
}

int image_choose(const char *name, const char *python, struct image_choice *ret, struct error *err)
{
        *ret = (struct image_choice){.is_default = !name};
        int r = choose_place(python, ret, err);
        if (r < 0 || !name)
                return r;
        if (!image_name_valid(name))
                return error_set(err, EINVAL,
                                 "\"%s\" is not a valid image name ([A-Za-z0-9_.-], 1 to 64)",
                                 name);
        snprintf(ret->name, sizeof(ret->name), "%s", name);
        return 0;
}

/* Returns false if no directory of PATH has it, or its path is too long. */
static bool find_in_path(const char *name, char *ret, size_t size)
{
        const char *path = getenv("PATH");
        struct stat st;

        while (path && *path) {
                size_t n = strcspn(path, ":");
                if (path[0] == '/' &&
                    (size_t)snprintf(ret, size, "%.*s/%s", (int)n, path, name) < size &&
                    stat(ret, &st) == 0 && S_ISREG(st.st_mode) && access(ret, X_OK) == 0)
                        return true;
                path += n + (path[n] == ':');
        }
        return false;
}

int image_choose_node(struct image_choice *choice, const char *nodejs, const char *pyodide,
                      struct error *err)
{
        const char *path = getenv("PATH");

        if (pyodide && (size_t)snprintf(choice->pyodide, sizeof(choice->pyodide), "%s", pyodide) >=
                               sizeof(choice->pyodide))
                return error_set(err, ENAMETOOLONG, "the path of Pyodide is too long");

        if (nodejs) {
                if ((size_t)snprintf(choice->node, sizeof(choice->node), "%s", nodejs) >=
                    sizeof(choice->node))
                        return error_set(err, ENAMETOOLONG, "the path of Node is too long");
                return 0;
        }
        if (find_in_path("node", choice->node, sizeof(choice->node)))
                return 0;
        *choice->node = '\0';
        return error_set(
                err, ENOENT,
                "JavaScript needs Node 20 or later, and PATH (%.200s) has no program \"node\": install it, or name one with \"nodejs\" in the config",
                path ? path : "");
}

int image_choose_set(const struct package_set *set, const char *python, struct image_choice *ret,
                     struct error *err)
{
        *ret = (struct image_choice){.is_default = true, .set = set};
        return choose_place(python, ret, err);
}

enum { DEPTH_MAX = 64, WALKS_MAX = 3, TRIES_MAX = 25, BETWEEN_TRIES_MS = 20 };

struct gift {
        const char *path; /* of the store */
        uid_t from;       /* our own: root, but in the capable mode */
        const struct upstream_user *user;
        dev_t device;
        bool tries;         /* gives nothing yet */
        unsigned int given; /* in this walk */
        int *locks;
        size_t n_locks;
        struct error *err;
};

static bool has_prefix(const char *text, const char *prefix)
{
        return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Locks ------------------------------------------------------------------------------------------ */

static int hold(struct gift *g, int fd)
{
        int *more = reallocarray(g->locks, g->n_locks + 1, sizeof(*more));

        if (!more) {
                close(fd);
                return error_errno(g->err, ENOMEM, "image store %s", g->path);
        }
        g->locks = more;
        g->locks[g->n_locks++] = fd;
        return 0;
}

static void release(struct gift *g)
{
        for (size_t i = 0; i < g->n_locks; i++)
                close(g->locks[i]);
        g->n_locks = 0;
}

static int busy(const struct gift *g, const char *name)
{
        char from[OWNER_TEXT_SIZE], to[OWNER_TEXT_SIZE];

        owner_describe(g->from, from);
        owner_describe(g->user->uid, to);
        return error_set(
                g->err, EBUSY,
                "image store %s: %s is in use by another Cloister, for which images belong to %s and not to %s: end that one first (see 'cloister sessions')",
                g->path, name, from, to);
}

static bool is_held(const struct gift *g, ino_t inode)
{
        struct stat st;

        for (size_t i = 0; i < g->n_locks; i++)
                if (fstat(g->locks[i], &st) == 0 && st.st_ino == inode)
                        return true;
        return false;
}

/* An image without a lock, which was made by hand, is not locked. */
static int take_lock(struct gift *g, int directory, const char *file, bool is_image,
                     const char *name)
{
        struct flock exclusive = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        struct stat st;

        _cleanup_close_ int fd = openat(directory, file,
                                        O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || is_held(g, st.st_ino))
                return 0;
        int r = is_image ? fcntl(fd, F_OFD_SETLK, &exclusive) : flock(fd, LOCK_EX | LOCK_NB);
        if (r < 0 && (errno == EAGAIN || errno == EACCES || errno == EWOULDBLOCK))
                return busy(g, name);
        return hold(g, take_fd(fd));
}

/* The walk --------------------------------------------------------------------------------------- */

static int strange(const struct gift *g, const char *name, const char *why)
{
        char from[OWNER_TEXT_SIZE], to[OWNER_TEXT_SIZE];

        owner_describe(g->from, from);
        owner_describe(g->user->uid, to);
        return error_set(
                g->err, EPERM,
                "image store %s of %s is not given to %s: %s %s; remove that, or set CLOISTER_IMAGE_STORE",
                g->path, from, to, name, why);
}

/* Returns 1: to be given, 0: it is the user's. */
static int look(const struct gift *g, const char *name, const struct stat *st)
{
        char why[OWNER_TEXT_SIZE + 16] = "belongs to ";

        if (st->st_uid != g->from) {
                owner_describe(st->st_uid, why + strlen(why));
                return st->st_uid == g->user->uid ? 0 : strange(g, name, why);
        }
        if (st->st_dev != g->device)
                return strange(g, name, "is on another file system");
        if (S_ISDIR(st->st_mode) && (st->st_mode & 0022))
                return strange(g, name, "is a directory that others can write to");
        if (S_ISREG(st->st_mode) && st->st_nlink != 1)
                return strange(g, name, "is a file that has other names");
        if (!S_ISDIR(st->st_mode) && !S_ISREG(st->st_mode) && !S_ISLNK(st->st_mode))
                return strange(g, name, "is neither a file, a directory nor a link");
        return 1;
}

static int give_below(struct gift *g, int directory, int depth);

/* Root alone can write to the directory: between the two calls nothing changes but by root. */
static int give(struct gift *g, int directory, const char *name, int depth)
{
        struct stat st;

        if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : error_errno(g->err, errno, "%s/%s", g->path, name);
        int r = look(g, name, &st);
        if (r <= 0)
                return r;
        if (S_ISDIR(st.st_mode)) {
                if (depth == DEPTH_MAX)
                        return strange(g, name, "is too deep");
                int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (fd < 0)
                        return error_errno(g->err, errno, "%s/%s", g->path, name);
                r = give_below(g, fd, depth + 1);
        }
        if (r >= 0 && !g->tries &&
            fchownat(directory, name, g->user->uid, g->user->gid, AT_SYMLINK_NOFOLLOW) < 0)
                return error_errno(g->err, errno, "give %s/…/%s to uid %u", g->path, name,
                                   g->user->uid);
        g->given++;
        return r;
}

/* Takes the descriptor. */
static int give_below(struct gift *g, int directory, int depth)
{
        DIR *stream = fdopendir(directory);
        int r = 0;

        if (!stream) {
                r = error_errno(g->err, errno, "image store %s", g->path);
                close(directory);
                return r;
        }
        for (struct dirent *d; r >= 0 && (d = readdir(stream));)
                if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
                        r = give(g, directory, d->d_name, depth);
        closedir(stream);
        return r;
}

/* A name in the store itself. */
static int give_entry(struct gift *g, int store, const char *name)
{
        static const char *const own[] = {".lock-", ".tmp-", ".parts-", ".set-"};
        char file[IMAGE_NAME_SIZE + 16];
        struct stat st;
        int r = 0;

        if (fstatat(store, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return 0;
        bool is_known = strcmp(name, ".cache") == 0 || strcmp(name, PACKAGES_INSTALLED) == 0;
        for (size_t i = 0; i < ARRAY_SIZE(own); i++)
                is_known = is_known || has_prefix(name, own[i]);
        if (!is_known) {
                snprintf(file, sizeof(file), "%.64s/image.json", name);
                if (!image_name_valid(name) || !S_ISDIR(st.st_mode) ||
                    faccessat(store, file, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                        return strange(g, name, "is no image");
                if (st.st_uid == g->from) {
                        snprintf(file, sizeof(file), "%.64s/" IMAGE_LOCK, name);
                        r = take_lock(g, store, file, true, name);
                }
        } else if (has_prefix(name, ".lock-") && st.st_uid == g->from) {
                r = take_lock(g, store, name, false, name);
        }
        return r < 0 ? r : give(g, store, name, 0);
}

static int walk(struct gift *g, int store)
{
        DIR *stream = fd_open_directory(store, ".");
        int r = 0;

        if (!stream)
                return error_errno(g->err, errno, "image store %s", g->path);
        g->given = 0;
        for (struct dirent *d; r >= 0 && (d = readdir(stream));)
                if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
                        r = give_entry(g, store, d->d_name);
        closedir(stream);
        return r;
}

static int give_all(struct gift *g, int store, const struct stat *st)
{
        if (st->st_mode & 0022)
                return strange(g, "it", "can be written by others");
        g->device = st->st_dev;
        g->tries = true;
        int r = walk(g, store);
        g->tries = false;
        for (int i = 0; r >= 0 && g->given > 0 && i < WALKS_MAX; i++)
                r = walk(g, store);
        if (r < 0)
                return r;
        if (g->given > 0)
                return busy(g, "it");
        if (fchown(store, g->user->uid, g->user->gid) < 0)
                return error_errno(g->err, errno, "give image store %s to uid %u", g->path,
                                   g->user->uid);
        return 0;
}

/* Another Cloister of the same config may give it meanwhile: that one's locks are soon released. */
static int give_store(const char *path, int store, const struct upstream_user *user,
                      struct error *err)
{
        const struct timespec between = {.tv_nsec = BETWEEN_TRIES_MS * 1000000L};
        struct error error = {};
        struct gift g = {.path = path, .from = geteuid(), .user = user, .err = &error};
        struct stat st;
        int r = -EBUSY;

        for (int i = 0; r == -EBUSY && i < TRIES_MAX; i++) {
                if (i > 0)
                        nanosleep(&between, NULL);
                if (fstat(store, &st) < 0)
                        return error_errno(err, errno, "image store %s", path);
                error = (struct error){};
                r = st.st_uid == g.from ? give_all(&g, store, &st) : 0;
                release(&g);
        }
        free(g.locks);
        if (r < 0 && err)
                *err = error;
        return r;
}

int image_store_create(const struct image_choice *choice, const struct upstream_user *user,
                       struct error *err)
{
        const char *path = choice->store;
        struct stat st;

        int r = path_make_directories(path, 0755);
        if (r < 0)
                return error_errno(err, -r, "create %s", path);
        _cleanup_close_ int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (dir < 0 || fstat(dir, &st) < 0)
                return error_errno(err, errno, "image store %s", path);
        if (st.st_uid == geteuid() && user->uid != st.st_uid)
                return give_store(path, dir, user, err);
        return 0;
}

int image_store_check(int store, const char *path, const struct upstream_user *user,
                      struct error *err)
{
        struct owner_difference other;
        struct stat st;

        if (fstatat(store, "", &st, AT_EMPTY_PATH) < 0)
                return error_errno(err, errno, "image store %s", path);
        /* All users who can read root's images may use them. */
        if (st.st_uid == 0 && user->uid != 0)
                return 0;
        return image_store_owned(path, owner_compare(store, user->uid, &other), &other, err);
}
