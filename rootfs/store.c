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
#include <unistd.h>

#include "base/buffer.h"
#include "base/fd.h"
#include "base/owner.h"
#include "base/path.h"

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
        _cleanup_close_ int fd = openat(store, path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                                        0600);
        if (fd < 0)
                return errno == EACCES
                               ? refused(store, path, err)
                               : error_errno(err, errno, "lock %s in the image store", path);
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
        DIR *stream = fdopendir(directory);
        int r = 0;

        if (!stream) {
                r = -errno;
                close(directory);
                return r;
        }
        for (struct dirent *d; r >= 0 && (d = fd_next_entry(stream));)
                r = remove_entry(t, dirfd(stream), d->d_name, depth + 1);
        closedir(stream);
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
        char path[IMAGE_NAME_SIZE + 16];

        if (!image_name_valid(name))
                return;
        snprintf(path, sizeof(path), LOCK "%s", name);
        _cleanup_close_ int fd = openat(store, path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                                        0600);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
                store_abandon(store, name);
}

void store_sweep(int store)
{
        DIR *stream = fd_open_directory(store, ".");

        if (!stream)
                return;
        for (struct dirent *d; (d = readdir(stream));)
                if (strncmp(d->d_name, TEMPORARY, strlen(TEMPORARY)) == 0)
                        sweep_one(store, d->d_name + strlen(TEMPORARY));
        closedir(stream);
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
        struct stat st;

        _cleanup_close_ int fd = openat(directory, IMAGE_LOCK,
                                        O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                                        0644);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        return S_ISREG(st.st_mode) ? take_fd(fd) : -EINVAL;
}

static int write_info(int directory, const struct image_info *info)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(IMAGE_JSON_MAX);
        _cleanup_close_ int fd = openat(directory, "image.json",
                                        O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

        if (fd < 0)
                return -errno;
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
        _cleanup_close_ int fd = openat(store, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        int r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
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
        DIR *stream = fd_open_directory(store, ".");

        if (!stream)
                return error_errno(err, errno, "read the image store");
        for (struct dirent *d; n < LIST_MAX && (d = readdir(stream));) {
                struct image_info info;
                if (!image_name_valid(d->d_name) || store_find(store, d->d_name, &info, NULL) <= 0)
                        continue;
                if (n == room) {
                        room = room ? room * 2 : 16;
                        struct image_info *more = reallocarray(images, (size_t)room, sizeof(*more));
                        if (!more) {
                                closedir(stream);
                                return error_errno(err, ENOMEM, "read the image store");
                        }
                        images = more;
                }
                /* The directory's name counts, because a user may rename it. */
                memcpy(info.name, d->d_name, strlen(d->d_name) + 1);
                images[n++] = info;
        }
        closedir(stream);
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

int store_default_name(int store, const char *python, char ret[IMAGE_NAME_SIZE], struct error *err)
{
        _cleanup_free_ char *parts = read_parts(store, python);
        return image_default_name(python, parts, store_stamp, ret, err);
}

bool store_knows_parts(int store, const char *python)
{
        _cleanup_free_ char *parts = read_parts(store, python);
        return parts;
}

/* Programs and libraries: they can be upgraded while Python stays the same. */
static bool is_part(const struct plan_entry *entry)
{
        const char *file = strrchr(entry->path, '/');

        return entry->kind == PLAN_FILE && !strchr(entry->path, '\n') &&
               (entry->linked || strstr(file, ".so"));
}

int store_write_parts(int store, const char *python, const struct plan *plan, struct error *err)
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
        image_parts_key(python, key);
        return store_write_note(store, "parts", key, buffer_bytes(&text), err);
}
