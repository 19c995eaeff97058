/*
 * Finds an image in the store.
 *
 * Theory of operation, of the child:
 *
 *   1. compiles its filter: afterwards it could not.
 *   2. becomes the user that images are built as, without capabilities and with no_new_privs. If that
 *      is root or not our own user, checks that the store is that user's. Makes the directory of
 *      the profile's packages if there is to be one, and loads the filter. No byte of the store MUST
 *      have been read before.
 *   3. computes the image's name from the interpreter and the store's notes.
 *   4. locks the image, opens it, reads and parses image.json.
 *
 * An interpreter that is named by its version is searched for between 2 and the filter: its candidates are run, as this
 * user, to ask for their version. If there is none, an image of that version is used.
 *
 * Files of the store may be FIFOs, links or devices: each is opened with O_NONBLOCK and O_NOFOLLOW
 * and must be a regular file. A file system that does not answer is what the deadline is for.
 */
#include "supervisor/monitor/image/image-reader.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/filter-load.h"
#include "base/host-file.h"
#include "policy/package-set.h"
#include "policy/seccomp/filter.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/image/image-store.h"
#include "supervisor/monitor/upstream/upstream-exec.h"
#include "supervisor/pythons/pythons.h"
#include "supervisor/pythons/version-image.h"

/* ---- the directory of a profile's packages in the store ---- */

/*
 * The directory of the store in which a profile's sessions find the packages that were installed for
 * them: STORE/.installed/PROFILE/sets (docs/packages.md). It is mounted in every session of the
 * profile, so that what is added later is there at once. It can be entered, not listed: a session
 * finds only sets whose names it was told.
 */

enum { START_DOUBT_SECONDS = 60 }; /* a clock that is set back a little */

/* Sandboxes enter it with their own ids, or with the owner's, who therefore cannot list it either. */
enum { FLAGS = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, MODE_ABOVE = 0711, MODE_SETS = 0311 };

/* Their paths below the store. */
static void package_place_path(const char *profile, char *to, size_t size)
{
        snprintf(to, size, PACKAGES_INSTALLED "/%s/" PACKAGES_SETS, profile);
}

static void package_place_lock_path(const char *profile, char *to, size_t size)
{
        snprintf(to, size, PACKAGES_INSTALLED "/%s/" PACKAGES_USE, profile);
}

static int enter(int parent, const char *name, mode_t mode, struct error *err)
{
        if (mkdirat(parent, name, mode) < 0 && errno != EEXIST)
                return error_errno(err, errno, "make %s", name);
        int fd = openat(parent, name, FLAGS);
        return fd < 0 ? error_errno(err, errno, "%s", name) : fd;
}

/* The lock belongs to the open file, and outlives this process with it. No other user can open the file. */
static int lock_use(int own, struct error *err)
{
        struct flock shared = {.l_type = F_RDLCK,
                               .l_whence = SEEK_SET,
                               .l_start = time(NULL) - START_DOUBT_SECONDS,
                               .l_len = 1};

        _cleanup_close_ int fd = host_file_open(HOST_FILE_PACKAGES_LOCK, own, PACKAGES_USE, err);
        if (fd < 0)
                return error_context(err, PACKAGES_USE);
        if (fcntl(fd, F_OFD_SETLK, &shared) < 0)
                return error_errno(err, errno, PACKAGES_USE ": lock");
        return take_fd(fd);
}

/* Makes what is missing of it. Runs as the store's owner. store: a directory, O_PATH. Returns an
 * O_PATH descriptor. *lock: while it is open, no set is removed that is requested from now on. */
static int package_place_open(int store, const char *profile, int *lock, struct error *err)
{
        /* So that no mode is changed afterwards: an installer could put a link there. */
        umask(0);
        _cleanup_close_ int all = enter(store, PACKAGES_INSTALLED, MODE_ABOVE, err);
        if (all < 0)
                return error_context(err, "image store");
        _cleanup_close_ int own = enter(all, profile, MODE_ABOVE, err);
        if (own < 0)
                return error_context(err, "image store: " PACKAGES_INSTALLED);
        _cleanup_close_ int sets = enter(own, PACKAGES_SETS, MODE_SETS, err);
        int used = sets < 0 ? sets : lock_use(own, err);
        if (used < 0)
                return error_context(err, "packages of profile \"%s\"", profile);
        *lock = used;
        return take_fd(sets);
}

/* An image that was made by hand may have no lock. */
enum { LOCKS_MAX = 128, FD_ROOT = 0, FD_LOCK = 1, FDS_MIN = 1 };

struct reply {
        struct error error;
        char name[IMAGE_NAME_SIZE];
        struct image_info info;
        uint32_t
                packages; /* index of their descriptor, after which only that of their lock comes; 0: there is none */
};

struct image_reader {
        struct child_task *task;
        struct image_choice choice;   /* in the child, python is a path once a version was found */
        struct python_version wanted; /* of choice.python; minor 0: that is a path */
        const struct upstream_user *user;
        int store; /* O_PATH directory, or -1: there is none */
        image_reader_done *done;
        void *data;
};

static int open_regular(int dir, const char *name, struct error *err)
{
        _cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return error_errno(err, errno, "%s", name);
        if (!S_ISREG(st.st_mode))
                return error_set(err, EINVAL, "%s: not a regular file", name);
        return take_fd(fd);
}

/* One of the store's notes; NULL when there is none. */
static char *read_note(int store, const char *kind, const char *key)
{
        char name[64], *text = NULL;
        size_t n = 0;

        snprintf(name, sizeof(name), ".%s-%s", kind, key);
        _cleanup_close_ int fd = open_regular(store, name, NULL);
        return fd < 0 || fd_read_whole(fd, IMAGE_PARTS_MAX, &text, &n, NULL) < 0 ? NULL : text;
}

/* No interpreter has the version. With a set of packages, an image would have to be made of one. */
static int find_image_of_version(const struct image_reader *reader, char ret[IMAGE_NAME_SIZE],
                                 struct error *err)
{
        const struct image_choice *choice = &reader->choice;

        snprintf(ret, IMAGE_NAME_SIZE, "python-%.32s", choice->python);
        if (!choice->set && version_image_find(reader->store, &reader->wanted, ret))
                return 0;
        return error_set(err, ENOENT, "there is no Python %s", choice->python);
}

static int find_name(const struct image_reader *reader, char ret[IMAGE_NAME_SIZE],
                     struct error *err)
{
        const struct image_choice *choice = &reader->choice;
        char key[IMAGE_KEY_SIZE];

        if (!choice->is_default) {
                memcpy(ret, choice->name, IMAGE_NAME_SIZE);
                return 0;
        }
        if (python_version_is_meant(choice->python))
                return find_image_of_version(reader, ret, err);
        image_parts_key(choice->python, key);
        _cleanup_free_ char *parts = read_note(reader->store, "parts", key);
        image_parts_key(choice->node, key);
        _cleanup_free_ char *node_parts = *choice->node ? read_note(reader->store, "parts", key)
                                                        : NULL;
        int r = image_choice_default_name(choice, parts, node_parts, ret, err);
        if (r < 0 || !choice->set)
                return r;
        /* A set of packages that was never built has a name that no image has. */
        snprintf(key, sizeof(key), "%016" PRIx64, package_set_key(choice->set, ret));
        _cleanup_free_ char *name = read_note(reader->store, "set", key);
        if (name && image_name_valid(name))
                snprintf(ret, IMAGE_NAME_SIZE, "%s", name);
        else
                snprintf(ret, IMAGE_NAME_SIZE, "set-%s", key);
        return 0;
}

static int open_image(int store, const char *name, struct error *err)
{
        int dir = openat(store, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

        if (store < 0 || (dir < 0 && errno == ENOENT))
                return error_set(
                        err, ENOENT,
                        "there is no image '%s' (make it with 'cloister image build --name %s')",
                        name, name);
        return dir < 0 ? error_errno(err, errno, "image %s", name) : dir;
}

/*
 * The lock belongs to the open file, which the monitor gets: it outlives this process. Each user who can
 * read the store can take this shared lock. The exclusive one that removes an image needs a file
 * that is open for writing, so that only the store's owner has it (store.h).
 *
 * Returns 0 and -1 in *ret where there is no lock to take: the image is used without.
 */
static int lock_image(int dir, int *ret, struct error *err)
{
        struct flock shared = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
        struct error ignored = {};
        struct stat st;

        *ret = -1;
        _cleanup_close_ int lock = open_regular(dir, IMAGE_LOCK, &ignored);
        if (lock < 0)
                return 0;
        if (fcntl(lock, F_OFD_SETLK, &shared) < 0 && (errno == EAGAIN || errno == EACCES))
                return error_set(err, ENOENT, "it is being removed");
        /* It may have been removed between the two calls. */
        if (fstat(lock, &st) < 0 || st.st_nlink == 0)
                return error_set(err, ENOENT, "it was removed");
        *ret = take_fd(lock);
        return 0;
}

static int read_info(int dir, struct image_info *info, struct error *err)
{
        _cleanup_free_ char *text = NULL;
        size_t length = 0;

        _cleanup_close_ int fd = open_regular(dir, "image.json", err);
        if (fd < 0)
                return fd;
        /* When the image was last used. Without the right to set it, the read below does. */
        futimens(fd, (struct timespec[]){{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}});
        int r = fd_read_whole(fd, IMAGE_JSON_MAX, &text, &length, err);
        if (r < 0)
                return error_context(err, "image.json");
        r = image_info_parse(text, length, info, err);
        info->packages = NULL;
        info->n_packages = 0;
        return r;
}

/* Returns the number of descriptors. */
static int find(const struct image_reader *reader, struct reply *reply, int fds[CHILD_TASK_FDS])
{
        struct error *err = &reply->error;
        int r = find_name(reader, reply->name, err);

        if (r < 0)
                return r;
        _cleanup_close_ int dir = open_image(reader->store, reply->name, err);
        if (dir < 0)
                return dir;
        _cleanup_close_ int lock = -1;
        r = lock_image(dir, &lock, err);
        if (r >= 0)
                r = read_info(dir, &reply->info, err);
        if (r >= 0 && reader->wanted.minor &&
            !python_version_fits(&reader->wanted, reply->info.version))
                r = error_set(err, EBADMSG, "%s stated another version when the image was made: %s",
                              reply->info.source, reply->info.version);
        if (r < 0)
                return error_context(err, "image %s", reply->name);
        int root = openat(dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (root < 0)
                return error_errno(err, errno, "image %s: root", reply->name);
        fds[FD_ROOT] = root;
        if (lock < 0)
                return FDS_MIN;
        fds[FD_LOCK] = take_fd(lock);
        return FDS_MIN + 1;
}

/* Runs the candidates. */
static int find_version(struct image_reader *reader, struct error *err)
{
        struct image_choice *choice = &reader->choice;
        char path[PYTHON_PATH_SIZE];

        static_assert(sizeof(path) <= sizeof(choice->python), "a path fits");
        if (!choice->is_default || !python_version_is_meant(choice->python))
                return 0;
        int r = python_version_parse(choice->python, &reader->wanted, err);
        if (r < 0)
                return r;
        if (pythons_find(&reader->wanted, reader->user->home, path))
                memcpy(choice->python, path, sizeof(path));
        return 0;
}

static int give_up_privilege(struct image_reader *reader, int *packages, int *lock,
                             struct error *err)
{
        const struct upstream_user *user = reader->user;
        _cleanup_close_ int filter = filter_compile(FILTER_READER, err);
        bool is_own = user->uid != 0 && user->uid == geteuid();

        if (filter < 0)
                return filter;
        int r = upstream_become(user, err);
        if (r >= 0)
                r = ids_drop_capabilities(err);
        if (r < 0)
                return r;
        /* A change of ids has reset both. */
        prctl(PR_SET_DUMPABLE, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return error_errno(err, errno, "no_new_privs");
        if (!is_own && reader->store >= 0)
                r = image_store_check(reader->store, reader->choice.store, user, err);
        if (r >= 0 && *reader->choice.packages && reader->store >= 0)
                r = *packages = package_place_open(reader->store, reader->choice.packages, lock,
                                                   err);
        if (r >= 0)
                r = find_version(reader, err);
        return r < 0 ? r : filter_load(filter, err);
}

static size_t run(void *argument, void *data, int fds[CHILD_TASK_FDS])
{
        struct image_reader *reader = argument;
        struct reply *reply = data;

        _cleanup_close_ int packages = -1, lock = -1;

        if (give_up_privilege(reader, &packages, &lock, &reply->error) < 0)
                return 0;
        int n = find(reader, reply, fds);
        if (n > 0 && packages >= 0) {
                reply->packages = (uint32_t)n;
                fds[n++] = take_fd(packages);
                fds[n++] = take_fd(lock);
        }
        return n < 0 ? 0 : (size_t)n;
}

/* Whether a descriptor is the file `below` of the store. Asks no file system. */
static bool is_in_store(int fd, int store, const char *below)
{
        char link[64], real[PATH_MAX], expected[PATH_MAX];

        snprintf(link, sizeof(link), "/proc/self/fd/%d", store);
        ssize_t n = readlink(link, expected, sizeof(expected) - 1);
        if (n < 0 || (size_t)snprintf(expected + n, sizeof(expected) - (size_t)n, "/%s", below) >=
                             sizeof(expected) - (size_t)n)
                return false;
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, real, sizeof(real) - 1);
        if (n < 0)
                return false;
        real[n] = '\0';
        return strcmp(real, expected) == 0;
}

/* From the kernel's cache: a file system in user space is not asked. -ENOTDIR: of another type. */
static int stat_cached(int fd, mode_t type, struct statx *ret)
{
        if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, ret) < 0)
                return -errno;
        return (ret->stx_mode & S_IFMT) == type ? 0 : -ENOTDIR;
}

/* Images and packages in use stay locked while this process lives: sessions of a template that has ended
 * may still run in them. */
static int keep_locked(int lock)
{
        static struct {
                dev_t device;
                uint64_t inode;
        } held[LOCKS_MAX];
        static size_t n;
        struct statx st;
        int r = stat_cached(lock, S_IFREG, &st);

        if (r < 0)
                return r;
        dev_t device = makedev(st.stx_dev_major, st.stx_dev_minor);
        for (size_t i = 0; i < n; i++)
                if (held[i].device == device && held[i].inode == st.stx_ino)
                        return 0;
        if (n == LOCKS_MAX)
                return -EMFILE;
        if (fcntl(lock, F_DUPFD_CLOEXEC, 0) < 0)
                return -errno;
        held[n].device = device;
        held[n++].inode = st.stx_ino;
        return 0;
}

/* The directory of packages and its lock are last; *n is then the number of those before them. */
static int take_packages(const struct image_reader *reader, const struct reply *reply, int *fds,
                         size_t *n, struct image_found *found, struct error *err)
{
        char below[IMAGE_NAME_SIZE + 32];
        struct statx st;

        if (reply->packages == 0 && !*reader->choice.packages)
                return 0;
        if (reply->packages == 0 || *n < 2 || reply->packages != *n - 2)
                return error_set(err, EPROTO, "the image reader sent no directory of packages");
        *n -= 2;
        package_place_lock_path(reader->choice.packages, below, sizeof(below));
        if (!is_in_store(fds[*n + 1], reader->store, below))
                return error_set(err, EAGAIN, "%s/%s is not a file of the store",
                                 reader->choice.store, below);
        package_place_path(reader->choice.packages, below, sizeof(below));
        if (stat_cached(fds[*n], S_IFDIR, &st) < 0 || !is_in_store(fds[*n], reader->store, below))
                return error_set(err, EAGAIN, "%s/%s is not a directory of the store",
                                 reader->choice.store, below);
        int r = keep_locked(fds[*n + 1]);
        if (r < 0)
                return error_errno(err, -r, "%s/%s", reader->choice.store, below);
        found->packages = take_fd(fds[*n]);
        return 0;
}

static int check_found(const struct reply *reply, int store, const int *fds, size_t n_fds,
                       struct error *err)
{
        char root[IMAGE_NAME_SIZE + 8], lock[IMAGE_NAME_SIZE + 8];
        bool locked = n_fds > FD_LOCK;
        struct statx st;

        if (n_fds < FDS_MIN || !image_info_valid(&reply->info))
                return error_set(err, EPROTO, "the image reader sent an answer that is not valid");
        snprintf(root, sizeof(root), "%s/root", reply->name);
        snprintf(lock, sizeof(lock), "%s/" IMAGE_LOCK, reply->name);
        int r = stat_cached(fds[FD_ROOT], S_IFDIR, &st);
        if (r < 0 && r != -ENOTDIR)
                return error_errno(err, -r, "image %s: statx", reply->name);
        if (!is_in_store(fds[FD_ROOT], store, root) || r < 0 ||
            (locked && !is_in_store(fds[FD_LOCK], store, lock)))
                return error_set(err, EAGAIN, "image %s changed while it was opened", reply->name);
        if (locked)
                r = keep_locked(fds[FD_LOCK]);
        return r < 0 ? error_errno(err, -r, "image %s", reply->name) : 0;
}

/* Takes the child's answer over, as far as it is valid. */
static int take_reply(const struct image_reader *reader, struct reply *reply, int *fds,
                      size_t n_fds, struct image_found *found, struct error *err)
{
        *found = (struct image_found){.root = -1, .packages = -1};
        reply->name[sizeof(reply->name) - 1] = '\0';
        if (image_name_valid(reply->name))
                memcpy(found->name, reply->name, sizeof(found->name));
        if (error_is_set(&reply->error)) {
                error_sanitize(&reply->error);
                /* ESTALE tells the broker that the config has changed. */
                if (reply->error.code == ESTALE)
                        reply->error.code = EIO;
                if (err)
                        *err = reply->error;
                return -reply->error.code;
        }
        if (!*found->name)
                return error_set(err, EPROTO, "the image reader sent a name that is not valid");
        int r = take_packages(reader, reply, fds, &n_fds, found, err);
        if (r >= 0)
                r = check_found(reply, reader->store, fds, n_fds, err);
        if (r < 0)
                return r;
        found->info = reply->info;
        found->info.packages = NULL;
        found->info.n_packages = 0;
        found->root = take_fd(fds[FD_ROOT]);
        return 0;
}

static void reader_free(struct image_reader *reader)
{
        if (reader->store >= 0)
                close(reader->store);
        free(reader);
}

static void on_answer(void *data, const struct error *error, void *reply, int fds[CHILD_TASK_FDS],
                      size_t n_fds)
{
        struct image_reader *reader = data;
        struct image_found found = {.root = -1, .packages = -1};
        struct error failed = {};

        if (error)
                failed = *error;
        else
                take_reply(reader, reply, fds, n_fds, &found, &failed);
        if (error)
                error_context(&failed, "image store %s", reader->choice.store);
        reader->done(reader->data, error_is_set(&failed) ? &failed : NULL, &found);
        if (found.root >= 0)
                close(found.root);
        if (found.packages >= 0)
                close(found.packages);
        reader_free(reader);
}

static int reader_new(const struct image_choice *choice, const struct upstream_user *user,
                      struct image_reader **ret, struct error *err)
{
        /* Its path is not the store owner's to choose. */
        _cleanup_close_ int store = open(choice->store, O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (store < 0 && errno != ENOENT)
                return error_errno(err, errno, "image store %s", choice->store);
        struct image_reader *reader = calloc(1, sizeof(*reader));
        if (!reader)
                return error_errno(err, ENOMEM, "image reader");
        reader->choice = *choice;
        reader->user = user;
        reader->store = take_fd(store);
        *ret = reader;
        return 0;
}

static struct child_task_spec describe(struct image_reader *reader)
{
        return (struct child_task_spec){.name = "image reader",
                                        .keep = {reader->store},
                                        .n_keep = 1,
                                        .reply_size = sizeof(struct reply),
                                        .timeout_ms = IMAGE_READ_MS,
                                        .run = run,
                                        .argument = reader};
}

int image_reader_start(struct child_tasks *tasks, const struct image_choice *choice,
                       const struct upstream_user *user, image_reader_done *done, void *data,
                       struct image_reader **ret, struct error *err)
{
        struct image_reader *reader;
        int r = reader_new(choice, user, &reader, err);

        if (r < 0)
                return r;
        reader->done = done;
        reader->data = data;
        struct child_task_spec spec = describe(reader);
        r = child_task_start(tasks, &spec, on_answer, reader, &reader->task, err);
        if (r < 0) {
                reader_free(reader);
                return r;
        }
        *ret = reader;
        return 0;
}

struct image_reader *image_reader_cancel(struct image_reader *reader)
{
        if (reader) {
                child_task_cancel(reader->task);
                reader_free(reader);
        }
        return NULL;
}

int image_read(const struct image_choice *choice, const struct upstream_user *user,
               struct image_found *found, struct error *err)
{
        struct image_reader *reader;
        struct reply reply = {};
        int fds[CHILD_TASK_FDS];
        size_t n_fds = 0;
        int r = reader_new(choice, user, &reader, err);

        if (r < 0)
                return r;
        struct child_task_spec spec = describe(reader);
        r = child_task_run(&spec, &reply, fds, &n_fds, err);
        if (r < 0)
                error_context(err, "image store %s", choice->store);
        else
                r = take_reply(reader, &reply, fds, n_fds, found, err);
        fd_close_many(fds, n_fds);
        reader_free(reader);
        return r;
}
