/* The store of images. */
#include "rootfs/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/host-file.h"
#include "base/json.h"
#include "base/path.h"
#include "policy/package-set.h"

#define TEMPORARY ".tmp-"
#define LOCK      ".lock-"

enum {
        DEPTH_MAX = 128,
        LIST_MAX = 10000,
        DIRECTORY = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
};

int store_open(const char *path, bool make, struct error *err)
{
        struct owner_difference other;
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0 && errno == ENOENT && make) {
                int r = path_make_directories(path, 0755);
                if (r < 0)
                        return error_errno(err, -r, "make the image store %s", path);
                fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        }
        if (fd < 0)
                return error_errno(err, errno, "image store %s", path);
        /* Whose it is, where that is why nothing can be made in it. */
        if (make && faccessat(fd, ".", W_OK, AT_EACCESS) < 0 && errno == EACCES &&
            image_store_owned(path, owner_compare(fd, geteuid(), &other), &other, err) < 0) {
                close(fd);
                return -EPERM;
        }
        return fd;
}

mode_t store_readers(const char *path)
{
        char real[PATH_MAX];
        struct stat st;

        for (size_t n = realpath(path, real) ? strlen(real) : 0; n > 0;
             n = (size_t)(strrchr(real, '/') - real)) {
                real[n] = '\0';
                if (stat(real, &st) < 0)
                        continue;
                if (!(st.st_mode & (S_IXGRP | S_IXOTH)))
                        return 0;
        }
        return S_IRGRP | S_IROTH;
}

int store_find(int store, const char *name, struct image_info *ret, struct error *err)
{
        char path[IMAGE_NAME_SIZE + 16];
        _cleanup_free_ char *data = NULL;
        struct stat st;
        size_t n = 0;

        if (fstatat(store, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : error_errno(err, errno, "image %s", name);
        snprintf(path, sizeof(path), "%s/image.json", name);
        _cleanup_close_ int fd = openat(store, path,
                                        O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0)
                return error_errno(err, errno, "image %s is damaged (remove it): image.json", name);
        int r = fd_read_whole(fd, IMAGE_JSON_MAX, &data, &n, err);
        if (r >= 0)
                r = image_info_parse(data, n, ret, err);
        return r < 0 ? error_context(err, "image %s", name) : 1;
}

/* A lock that another user has made. */
static int refused(int store, const char *lock, struct error *err)
{
        char link[64], path[PATH_MAX];
        struct owner_difference other;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", store);
        ssize_t n = readlink(link, path, sizeof(path) - 1);
        path[n < 0 ? 0 : n] = '\0';
        int r = image_store_owned(path, owner_compare(store, geteuid(), &other), &other, err);
        return r < 0 ? r : error_errno(err, EACCES, "lock %s in the image store", lock);
}

int store_lock(int store, const char *name, bool wait, struct error *err)
{
        char path[IMAGE_NAME_SIZE + 16];

        snprintf(path, sizeof(path), LOCK "%s", name);
        _cleanup_close_ int fd = host_file_open(HOST_FILE_STORE_LOCK, store, path, err);
        if (fd < 0)
                return fd == -EACCES ? refused(store, path, err)
                                     : error_context(err, "lock %s in the image store", path);
        while (flock(fd, wait ? LOCK_EX : LOCK_EX | LOCK_NB) < 0) {
                if (errno == EWOULDBLOCK && !wait)
                        return -EWOULDBLOCK;
                if (errno != EINTR)
                        return error_errno(err, errno, "lock %s in the image store", path);
        }
        return take_fd(fd);
}

/* The removal of a directory and of what is below it. Entries deeper than DEPTH_MAX are moved up to
 * the directory itself and removed in the next pass: each level takes a descriptor and a stack frame,
 * and a hostile build can leave any depth. */
struct removal {
        int top;
        unsigned int moved;
};

static int move_up(struct removal *t, int parent, const char *name)
{
        char path[32];
        int r;

        /* Such names may be there already. */
        do {
                snprintf(path, sizeof(path), ".deep-%u", t->moved++);
                r = renameat2(parent, name, t->top, path, RENAME_NOREPLACE) < 0 ? -errno : 0;
        } while (r == -EEXIST && t->moved != 0);
        return r;
}

static int empty(struct removal *t, int directory, int depth);

static int remove_entry(struct removal *t, int parent, const char *name, int depth)
{
        if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
                return 0;
        if (errno != EISDIR && errno != EPERM)
                return -errno;
        if (depth == DEPTH_MAX)
                return move_up(t, parent, name);
        int fd = openat(parent, name, DIRECTORY);
        if (fd < 0)
                return -errno;
        int r = empty(t, fd, depth);
        if (r >= 0 && unlinkat(parent, name, AT_REMOVEDIR) < 0)
                r = -errno;
        return r;
}

/* Takes the descriptor. */
static int empty(struct removal *t, int directory, int depth)
{
        _cleanup_closedir_ DIR *stream = fdopendir(directory);
        int r = 0;

        if (!stream) {
                r = -errno;
                close(directory);
                return r;
        }
        for (struct dirent *d; r >= 0 && (d = fd_next_entry(stream));)
                r = remove_entry(t, dirfd(stream), d->d_name, depth + 1);
        return r;
}

int store_clear(int parent, const char *name)
{
        if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
                return 0;
        if (errno != EISDIR && errno != EPERM)
                return -errno;
        _cleanup_close_ int top = openat(parent, name, DIRECTORY);
        if (top < 0)
                return -errno;
        struct removal t = {.top = top};
        for (;;) {
                unsigned int before = t.moved;
                int again = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                int r = again < 0 ? -errno : empty(&t, again, 0);
                if (r < 0)
                        return r;
                if (unlinkat(parent, name, AT_REMOVEDIR) == 0)
                        return 0;
                if (errno != ENOTEMPTY || t.moved == before)
                        return -errno;
        }
}

void store_abandon(int store, const char *name)
{
        char path[IMAGE_NAME_SIZE + 16];

        snprintf(path, sizeof(path), TEMPORARY "%s", name);
        store_clear(store, path);
}

/* Removes .tmp-NAME unless its builder is running. */
static void sweep_one(int store, const char *name)
{
        _cleanup_close_ int lock = image_name_valid(name) ? store_lock(store, name, false, NULL)
                                                          : -1;

        if (lock >= 0)
                store_abandon(store, name);
}

void store_sweep(int store)
{
        _cleanup_closedir_ DIR *stream = fd_open_directory(store, ".");

        for (struct dirent *d; stream && (d = readdir(stream));)
                if (strncmp(d->d_name, TEMPORARY, strlen(TEMPORARY)) == 0)
                        sweep_one(store, d->d_name + strlen(TEMPORARY));
}

int store_begin(int store, const char *name, struct error *err)
{
        char path[IMAGE_NAME_SIZE + 16];

        store_abandon(store, name);
        snprintf(path, sizeof(path), TEMPORARY "%s", name);
        if (mkdirat(store, path, 0755) < 0)
                return error_errno(err, errno, "make %s in the image store", path);
        int fd = openat(store, path, DIRECTORY);
        return fd < 0 ? error_errno(err, errno, "open %s in the image store", path) : fd;
}

/* Creates the lock of an image that has none. */
static int open_lock(int directory)
{
        return host_file_open(HOST_FILE_IMAGE_LOCK, directory, IMAGE_LOCK, NULL);
}

static int write_info(int directory, const struct image_info *info)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(IMAGE_JSON_MAX);
        _cleanup_close_ int fd = host_file_open(HOST_FILE_IMAGE_INFO, directory, "image.json",
                                                NULL);

        if (fd < 0)
                return fd;
        int r = image_info_append(&b, info);
        if (r >= 0)
                r = fd_write_all(fd, buffer_bytes(&b), b.length);
        _cleanup_close_ int lock = open_lock(directory);
        return r >= 0 && lock < 0 ? lock : r;
}

int store_commit(int store, const char *name, const struct image_info *info, struct error *err)
{
        char path[IMAGE_NAME_SIZE + 16];

        snprintf(path, sizeof(path), TEMPORARY "%s", name);
        _cleanup_close_ int directory = openat(store, path, DIRECTORY);
        int r = directory < 0 ? -errno : write_info(directory, info);
        /* One call for thousands of files. Without it, a power failure could leave an image with
         * empty files. */
        if (r >= 0 && syncfs(directory) < 0)
                r = -errno;
        if (r >= 0 && renameat(store, path, store, info->name) < 0)
                r = -errno;
        if (r >= 0)
                fsync(store);
        return r < 0 ? error_errno(err, -r, "finish image %s", info->name) : 0;
}

/* No process can begin to use the image until the descriptor is closed. */
static int lock_for_removal(int directory)
{
        struct flock exclusive = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

        _cleanup_close_ int fd = open_lock(directory);
        if (fd < 0)
                return fd;
        if (fcntl(fd, F_OFD_SETLK, &exclusive) < 0)
                return errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
        return take_fd(fd);
}

int store_remove(int store, const char *name, struct error *err)
{
        char path[IMAGE_NAME_SIZE + 16];

        if (faccessat(store, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
                return 0;
        _cleanup_close_ int lock = store_lock(store, name, false, err);
        if (lock < 0)
                return lock == -EWOULDBLOCK ? -EBUSY : lock;
        _cleanup_close_ int directory = openat(store, name, DIRECTORY);
        if (directory < 0 && errno == ENOENT)
                return 0;
        if (directory < 0)
                return error_errno(err, errno, "image %s", name);
        _cleanup_close_ int used = lock_for_removal(directory);
        if (used < 0)
                return used == -EBUSY ? used : error_errno(err, -used, "image %s: lock", name);
        /* If we are killed here, the next build removes the rest. */
        snprintf(path, sizeof(path), TEMPORARY "%s", name);
        int r = store_clear(store, path);
        if (r >= 0 && renameat(store, name, store, path) < 0)
                r = -errno;
        if (r >= 0)
                r = store_clear(store, path);
        if (r < 0)
                return error_errno(err, -r, "remove image %s", name);
        return 1;
}

char *store_read_note(int store, const char *kind, const char *key)
{
        char path[NAME_MAX];
        char *text = NULL;
        size_t n = 0;

        snprintf(path, sizeof(path), ".%s-%s", kind, key);
        _cleanup_close_ int fd = openat(store, path,
                                        O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        return fd < 0 || fd_read_whole(fd, IMAGE_PARTS_MAX, &text, &n, NULL) < 0 ? NULL : text;
}

int store_write_note(int store, const char *kind, const char *key, const char *text,
                     struct error *err)
{
        char path[NAME_MAX], part[NAME_MAX];

        snprintf(path, sizeof(path), ".%s-%s", kind, key);
        snprintf(part, sizeof(part), ".%s-%s.%d", kind, key, (int)getpid());
        unlinkat(store, part, 0);
        _cleanup_close_ int fd = host_file_open(HOST_FILE_STORE_NOTE, store, part, NULL);
        int r = fd < 0 ? fd : fd_write_all(fd, text, strlen(text));
        if (r >= 0 && renameat(store, part, store, path) < 0)
                r = -errno;
        return r < 0 ? error_errno(err, -r, "write %s in the image store", path) : 0;
}

static int by_name(const void *a, const void *b)
{
        const struct image_info *left = a, *right = b;
        return strcmp(left->name, right->name);
}

int store_list(int store, struct image_info **ret, struct error *err)
{
        _cleanup_free_ struct image_info *images = NULL;
        int n = 0, room = 0;
        _cleanup_closedir_ DIR *stream = fd_open_directory(store, ".");

        if (!stream)
                return error_errno(err, errno, "read the image store");
        for (struct dirent *d; n < LIST_MAX && (d = readdir(stream));) {
                struct image_info info;
                if (!image_name_valid(d->d_name) || store_find(store, d->d_name, &info, NULL) <= 0)
                        continue;
                if (n == room) {
                        room = room ? room * 2 : 16;
                        struct image_info *more = reallocarray(images, (size_t)room, sizeof(*more));
                        if (!more)
                                return error_errno(err, ENOMEM, "read the image store");
                        images = more;
                }
                /* The directory's name counts, because a user may rename it. */
                memcpy(info.name, d->d_name, strlen(d->d_name) + 1);
                images[n++] = info;
        }
        if (n > 1)
                qsort(images, (size_t)n, sizeof(*images), by_name);
        *ret = take_ptr(images);
        return n;
}

/* ---- the parts of default images ---- */

int store_stamp(const char *path, struct image_stamp *ret)
{
        struct stat st;

        if (stat(path, &st) < 0)
                return -errno;
        *ret = (struct image_stamp){
                .inode = st.st_ino,
                .size = (uint64_t)st.st_size,
                .mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
        };
        return 0;
}

static char *read_parts(int store, const char *python)
{
        char key[IMAGE_KEY_SIZE];

        image_parts_key(python, key);
        return store_read_note(store, "parts", key);
}

void store_parts_read(int store, const char *python, const char *node, struct store_parts *ret)
{
        ret->python = read_parts(store, python);
        ret->node = node && *node ? read_parts(store, node) : NULL;
}

void store_parts_done(struct store_parts *parts)
{
        free(parts->python);
        free(parts->node);
        *parts = (struct store_parts){};
}

int store_parts_name(const struct store_parts *parts, const char *python, const char *node,
                     const char *pyodide, char ret[IMAGE_NAME_SIZE], struct error *err)
{
        int r = image_default_name(python, parts->python, store_stamp, ret, err);

        if (r >= 0)
                r = image_name_add_node(ret, node, parts->node, store_stamp, err);
        return r < 0 ? r : image_name_add_pyodide(ret, pyodide, store_stamp, err);
}

int store_default_name(int store, const char *python, const char *node, const char *pyodide,
                       char ret[IMAGE_NAME_SIZE], struct error *err)
{
        _cleanup_(store_parts_done) struct store_parts parts = {};

        store_parts_read(store, python, node, &parts);
        return store_parts_name(&parts, python, node, pyodide, ret, err);
}

bool store_knows_parts(int store, const char *program)
{
        _cleanup_free_ char *parts = read_parts(store, program);
        return parts;
}

/* Programs and libraries: they can be upgraded while Python stays the same. */
static bool is_part(const struct plan_entry *entry)
{
        const char *file = strrchr(entry->path, '/');

        return entry->kind == PLAN_FILE && !strchr(entry->path, '\n') &&
               (entry->linked || strstr(file, ".so"));
}

int store_write_parts(int store, const char *program, const struct plan *plan, struct error *err)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(IMAGE_PARTS_MAX - 1);
        char key[IMAGE_KEY_SIZE];

        /* The rest is not recorded. */
        for (size_t i = 0; i < plan->n; i++)
                if (is_part(&plan->entries[i]) &&
                    buffer_printf(&text, "%s\n", plan->entries[i].path) < 0)
                        break;
        if (buffer_append(&text, "", 1) < 0)
                return error_errno(err, ENOMEM, "parts of the image");
        image_parts_key(program, key);
        return store_write_note(store, "parts", key, buffer_bytes(&text), err);
}

/* ---- housekeeping ---- */

enum { YOUNG_SECONDS = 24 * 3600, NOTE_MAX = 1024 * 1024 };

static bool has_prefix(const char *text, const char *prefix)
{
        return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool housekeeping_is_stale(int store, const struct image_info *info)
{
        char now[IMAGE_NAME_SIZE];

        bool is_default = image_name_is_default(info->name);

        if (!is_default && !has_prefix(info->name, "packages-"))
                return false;
        if (info->source[0] != '/')
                return false;
        return store_default_name(store, info->source, info->node, info->pyodide, now, NULL) < 0 ||
               strcmp(now, is_default ? info->name : info->base) != 0;
}

void housekeeping_remove_older(int store, const struct image_info *made)
{
        struct image_info *images = NULL;
        int n = store_list(store, &images, NULL);

        for (int i = 0; i < n; i++) {
                if (image_name_is_default(images[i].name) &&
                    strcmp(images[i].source, made->source) == 0 &&
                    strcmp(images[i].node, made->node) == 0 &&
                    strcmp(images[i].pyodide, made->pyodide) == 0 &&
                    strcmp(images[i].name, made->name) != 0)
                        store_remove(store, images[i].name, NULL);
        }
        free(images);
}

/* Whether image.json contains this text. A hash can be found without parsing. */
static bool mentions(int store, const char *image, const char *text)
{
        char path[IMAGE_NAME_SIZE + 16];
        _cleanup_free_ char *data = NULL;
        size_t n = 0;

        snprintf(path, sizeof(path), "%s/image.json", image);
        _cleanup_close_ int fd = openat(store, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        return fd >= 0 && fd_read_whole(fd, IMAGE_JSON_MAX, &data, &n, NULL) >= 0 &&
               strstr(data, text);
}

static void add_size(int folder, const char *name, uint64_t *bytes)
{
        _cleanup_closedir_ DIR *stream = fd_open_directory(folder, name);
        struct stat st;

        for (struct dirent *d; stream && (d = readdir(stream));)
                if (fstatat(dirfd(stream), d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                    S_ISREG(st.st_mode))
                        *bytes += (uint64_t)st.st_size;
}

static void prune_wheels(int store, const struct image_info *images, int n, uint64_t *bytes)
{
        _cleanup_closedir_ DIR *stream = fd_open_directory(store, ".cache/wheels");

        for (struct dirent *d; stream && (d = readdir(stream));) {
                bool used = d->d_name[0] == '.';
                for (int i = 0; i < n && !used; i++)
                        used = *images[i].set && mentions(store, images[i].name, d->d_name);
                if (used)
                        continue;
                add_size(dirfd(stream), d->d_name, bytes);
                store_clear(dirfd(stream), d->d_name);
        }
}

/* Removes .set files whose image was removed. */
static void prune_notes(int store)
{
        _cleanup_closedir_ DIR *stream = fd_open_directory(store, ".");

        for (struct dirent *d; stream && (d = readdir(stream));) {
                if (!has_prefix(d->d_name, ".set-"))
                        continue;
                _cleanup_free_ char *name = store_read_note(store, "set", d->d_name + 5);
                if (!name || !image_name_valid(name) || faccessat(store, name, F_OK, 0) < 0)
                        unlinkat(store, d->d_name, 0);
        }
}

/* ---- packages that were installed for sessions ---- */

static uint64_t size_of(int index, const char *note)
{
        _cleanup_close_ int fd = openat(index, note,
                                        O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        _cleanup_free_ char *text = NULL;
        _cleanup_json_ yyjson_doc *doc = NULL;
        int64_t bytes = 0;
        size_t n = 0;

        if (fd < 0 || fd_read_whole(fd, NOTE_MAX, &text, &n, NULL) < 0 ||
            json_parse(text, n, &doc, NULL) < 0)
                return 0;
        json_int64(yyjson_obj_get(yyjson_doc_get_root(doc), "bytes"), &bytes);
        return bytes > 0 ? (uint64_t)bytes : 0;
}

/* Its directory can be entered, not listed. */
static void prune_set(int profile, int index, const char *note, size_t n, uint64_t *bytes)
{
        _cleanup_close_ int sets = openat(profile, PACKAGES_SETS,
                                          O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        char name[IMAGE_NAME_SIZE];

        if (sets < 0 || n >= sizeof(name))
                return;
        snprintf(name, sizeof(name), "%.*s", (int)n, note);
        *bytes += size_of(index, note);
        unlinkat(index, note, 0);
        store_clear(sets, name);
}

/* Whether a server runs that had started when the set was last asked for (PACKAGES_USE). Where that cannot be
 * told, one does. */
static bool is_used(int use, time_t asked)
{
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = asked + 1};

        return use >= 0 && (fcntl(use, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK);
}

static void prune_profile(int profile, uint64_t *bytes)
{
        _cleanup_closedir_ DIR *stream = fd_open_directory(profile, "index");
        /* Servers of earlier versions made none. */
        _cleanup_close_ int use = openat(profile, PACKAGES_USE,
                                         O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        struct stat st;

        for (struct dirent *d; stream && (d = readdir(stream));) {
                size_t n = strlen(d->d_name);
                if (n <= 5 || strcmp(d->d_name + n - 5, ".json") != 0 || d->d_name[0] == '.' ||
                    fstatat(dirfd(stream), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
                    time(NULL) - st.st_mtime < YOUNG_SECONDS || is_used(use, st.st_mtime))
                        continue;
                prune_set(profile, dirfd(stream), d->d_name, n - 5, bytes);
        }
}

/* Removes the sets that no session has asked for for a day, and no session of a server that runs has. Adds to
 * *bytes what they took. */
static void prune_sets(int store, uint64_t *bytes)
{
        _cleanup_closedir_ DIR *stream = fd_open_directory(store, PACKAGES_INSTALLED);

        for (struct dirent *d; stream && (d = readdir(stream));) {
                _cleanup_close_ int profile = -1;
                if (d->d_name[0] != '.')
                        profile = openat(dirfd(stream), d->d_name,
                                         O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (profile >= 0)
                        prune_profile(profile, bytes);
        }
}

int housekeeping_prune(int store, void (*report)(const struct image_info *info, bool busy),
                       uint64_t *bytes, struct error *err)
{
        _cleanup_free_ struct image_info *images = NULL;
        int removed = 0, kept = 0;

        int n = store_list(store, &images, err);
        if (n < 0)
                return n;
        store_sweep(store);
        for (int i = 0; i < n; i++) {
                int r = 0;
                if (housekeeping_is_stale(store, &images[i])) {
                        r = store_remove(store, images[i].name, err);
                        if (r < 0 && r != -EBUSY)
                                return r;
                        report(&images[i], r == -EBUSY);
                }
                if (r == 1)
                        removed++;
                else
                        images[kept++] = images[i];
        }
        prune_notes(store);
        prune_wheels(store, images, kept, bytes);
        prune_sets(store, bytes);
        return removed;
}
