/* Takes a snapshot of a directory. */
#include "sandbox-init/worker/rollback/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* ---- memory that grows ---- */

enum { STEP = 64 * 1024, ENTRIES_SIZE = 32 * 1024 };

static int grow(struct arena *a, size_t needed)
{
        size_t size = a->mapped + a->mapped / 4;

        if (size < needed)
                size = needed;
        size = (size + STEP - 1) / STEP * STEP;
        long at = a->base ? raw_call(SYS_mremap, raw_pointer(a->base), (long)a->mapped, (long)size,
                                     MREMAP_MAYMOVE, 0, 0)
                          : raw_call(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at < 0 && at >= -4095)
                return -ENOMEM;
        a->base = (char *)(uintptr_t)at;
        a->mapped = size;
        return 0;
}

long arena_append(struct arena *a, size_t n)
{
        size_t at = (a->used + 7) & ~(size_t)7;

        if (at + n > a->mapped && grow(a, at + n) < 0)
                return -ENOMEM;
        a->used = at + n;
        return (long)at;
}

void arena_free(struct arena *a)
{
        if (a->base)
                raw_call(SYS_munmap, raw_pointer(a->base), (long)a->mapped, 0, 0, 0, 0);
        *a = (struct arena){0};
}

/* ---- names and inodes ---- */

/* At least twice as many as there are names and open files. */
enum { SNAPSHOT_SLOTS = 1 << 16 };

static bool snapshot_is_error(long r)
{
        return r < 0 && r >= -4095;
}

static uint32_t slot_of(uint64_t hash)
{
        return (uint32_t)(hash * 0x9e3779b97f4a7c15 >> 48) % SNAPSHOT_SLOTS;
}

static uint32_t name_slot(uint32_t directory, const char *text)
{
        uint64_t hash = 0xcbf29ce484222325 ^ directory;

        for (; *text; text++)
                hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
        return slot_of(hash);
}

/* At most half of the slots are in use, so that each search ends. */
static uint32_t *free_slot(uint32_t *slots, uint32_t at)
{
        while (slots[at] != 0)
                at = (at + 1) % SNAPSHOT_SLOTS;
        return &slots[at];
}

/* Makes what was appended to an arena findable. */
static void snapshot_index_name(struct snapshot *s, uint32_t i)
{
        const struct snapshot_name *name = snapshot_name(s, i);

        *free_slot(s->by_name, name_slot(name->directory, snapshot_text(s, name->text))) = i + 1;
}

static void snapshot_index_inode(struct snapshot *s, uint32_t i)
{
        *free_slot(s->by_number, slot_of(snapshot_inode(s, i)->number)) = i + 1;
}

uint32_t snapshot_find_name(const struct snapshot *s, uint32_t directory, const char *text)
{
        for (uint32_t at = name_slot(directory, text); s->by_name[at] != 0;
             at = (at + 1) % SNAPSHOT_SLOTS) {
                const struct snapshot_name *name = snapshot_name(s, s->by_name[at] - 1);
                if (name->directory == directory && strcmp(snapshot_text(s, name->text), text) == 0)
                        return s->by_name[at] - 1;
        }
        return SNAPSHOT_NONE;
}

uint32_t snapshot_find_inode(const struct snapshot *s, uint64_t number, uint32_t mode)
{
        for (uint32_t at = slot_of(number); s->by_number[at] != 0; at = (at + 1) % SNAPSHOT_SLOTS) {
                const struct snapshot_inode *inode = snapshot_inode(s, s->by_number[at] - 1);
                if (inode->number == number && (inode->mode & S_IFMT) == (mode & S_IFMT))
                        return s->by_number[at] - 1;
        }
        return SNAPSHOT_NONE;
}

static int open_step(int directory, const char *name)
{
        return (int)raw_call(SYS_openat, directory, raw_pointer(name),
                             O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0, 0, 0);
}

int snapshot_open_directory(const struct snapshot *s, uint32_t inode)
{
        uint32_t steps[SNAPSHOT_DEPTH_MAX + 1];
        int n = 0;

        while (inode != 0) {
                uint32_t name = snapshot_inode(s, inode)->name;
                if (n > SNAPSHOT_DEPTH_MAX)
                        return -ELOOP;
                steps[n++] = name;
                inode = snapshot_name(s, name)->directory;
        }
        int fd = open_step(AT_FDCWD, s->root);
        while (fd >= 0 && n-- > 0) {
                int next = open_step(fd, snapshot_text(s, snapshot_name(s, steps[n])->text));
                snapshot_close(fd);
                fd = next;
        }
        return fd;
}

int snapshot_set_mode(const struct snapshot *s, uint32_t i, uint32_t mode)
{
        if (i == SNAPSHOT_NONE)
                return (int)raw_call(SYS_fchmodat, AT_FDCWD, raw_pointer(s->root), mode & 07777, 0,
                                     0, 0);
        const struct snapshot_name *name = snapshot_name(s, i);
        int fd = snapshot_open_directory(s, name->directory);
        if (fd < 0)
                return fd;
        long r = raw_call(SYS_fchmodat, fd, raw_pointer(snapshot_text(s, name->text)), mode & 07777,
                          0, 0, 0);
        snapshot_close(fd);
        return (int)r;
}

int snapshot_each(int directory, int (*visit)(void *data, int directory, const char *name),
                  void *data)
{
        static char entries[ENTRIES_SIZE] __attribute__((aligned(8)));

        return (int)raw_each_name(directory, entries, sizeof(entries), visit, data);
}

void snapshot_fd_path(int fd, char to[32])
{
        snprintf(to, 32, "/proc/self/fd/%d", fd);
}

enum {
        PATH_SIZE = 4096,
        CLOCK_EVERY = 64, /* names */
        OWNER_ALL = 0700,
};

static char path[PATH_SIZE]; /* of links, and of the current directory */

struct walk {
        struct snapshot *s;
        uint64_t bytes_max, end_ms;
        uint32_t directory; /* the index of the one that is read */
};

static uint64_t now_ms(void)
{
        return (uint64_t)raw_clock_us(CLOCK_MONOTONIC) / 1000;
}

static int append_text(struct snapshot *s, const char *text, size_t n, uint32_t *ret)
{
        long at = arena_append(&s->texts, n + 1);

        if (at < 0)
                return -ENOMEM;
        memcpy(s->texts.base + at, text, n);
        *ret = (uint32_t)at;
        return 0;
}

/* ---- contents ---- */

static int take_extent(struct walk *w, int fd, uint64_t offset, uint64_t length)
{
        struct arena *to = &w->s->contents;

        if (length > w->bytes_max || to->used + length > w->bytes_max)
                return -EFBIG;
        long at = arena_append(to, sizeof(struct snapshot_extent) + length);
        if (at < 0)
                return -ENOMEM;
        char *bytes = to->base + at + sizeof(struct snapshot_extent);
        uint64_t n = 0;
        while (n < length) {
                long r = raw_call(SYS_pread64, fd, raw_pointer(bytes + n), (long)(length - n),
                                  (long)(offset + n), 0, 0);
                if (r < 0 && r != -EINTR)
                        return (int)r;
                if (r == 0)
                        break; /* a process that runs meanwhile has made it shorter */
                n += r > 0 ? (uint64_t)r : 0;
        }
        *(struct snapshot_extent *)(void *)(to->base + at) = (struct snapshot_extent){
                .offset = offset, .length = length};
        return 0;
}

static int take_extents(struct walk *w, int fd, struct snapshot_inode *inode)
{
        uint64_t at = 0;

        while (at < inode->size) {
                long begin = raw_call(SYS_lseek, fd, (long)at, SEEK_DATA, 0, 0, 0);
                if (begin == -ENXIO)
                        return 0;
                long end = begin < 0 ? begin : raw_call(SYS_lseek, fd, begin, SEEK_HOLE, 0, 0, 0);
                if (end < 0)
                        return (int)end;
                if ((uint64_t)end > inode->size)
                        end = (long)inode->size;
                if (begin >= end)
                        return 0;
                int r = take_extent(w, fd, (uint64_t)begin, (uint64_t)(end - begin));
                if (r < 0)
                        return r;
                inode->n_extents++;
                at = (uint64_t)end;
        }
        return 0;
}

static int take_content(struct walk *w, int fd, const struct stat *about, uint32_t i)
{
        struct snapshot_inode *inode = snapshot_inode(w->s, i);
        bool has_holes = (uint64_t)about->st_blocks * 512 < inode->size;

        inode->content = (w->s->contents.used + 7) & ~(size_t)7;
        if (inode->size == 0)
                return 0;
        if (has_holes)
                return take_extents(w, fd, inode);
        inode->n_extents = 1;
        return take_extent(w, fd, 0, inode->size);
}

static int open_file(int directory, const char *name)
{
        return (int)raw_call(SYS_openat, directory, raw_pointer(name),
                             O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOATIME | O_CLOEXEC, 0, 0, 0);
}

static int take_file(struct walk *w, int directory, const char *name, const struct stat *about,
                     uint32_t i)
{
        int fd = open_file(directory, name);

        if (fd == -EACCES) {
                raw_call(SYS_fchmodat, directory, raw_pointer(name),
                         (about->st_mode & 07777) | S_IRUSR, 0, 0, 0);
                fd = open_file(directory, name);
                raw_call(SYS_fchmodat, directory, raw_pointer(name), about->st_mode & 07777, 0, 0,
                         0);
        }
        if (fd < 0)
                return fd;
        int r = take_content(w, fd, about, i);
        snapshot_close(fd);
        return r;
}

static int take_link(struct walk *w, int directory, const char *name, uint32_t i)
{
        uint32_t target = 0;
        long n = raw_call(SYS_readlinkat, directory, raw_pointer(name), raw_pointer(path),
                          sizeof(path) - 1, 0, 0);

        if (n < 0)
                return (int)n;
        path[n] = '\0';
        int r = append_text(w->s, path, (size_t)n, &target);
        snapshot_inode(w->s, i)->target = target;
        return r;
}

/* ---- names ---- */

static int add_inode(struct snapshot *s, const struct stat *about, uint32_t *ret)
{
        if (arena_append(&s->inodes, sizeof(struct snapshot_inode)) < 0)
                return -ENOMEM;
        *ret = s->n_inodes++;
        *snapshot_inode(s, *ret) = (struct snapshot_inode){
                .number = about->st_ino,
                .mode = about->st_mode,
                .size = (uint64_t)about->st_size,
                .name = SNAPSHOT_NONE,
                .place = SNAPSHOT_NONE,
                .staged = SNAPSHOT_NONE,
                .fd = -1,
                .times = {about->st_atim, about->st_mtim},
        };
        snapshot_index_inode(s, *ret);
        return 0;
}

static int add_name(struct snapshot *s, uint32_t directory, const char *text, uint32_t inode)
{
        uint32_t at = 0;
        int r = append_text(s, text, strlen(text), &at);

        if (r < 0 || arena_append(&s->names, sizeof(struct snapshot_name)) < 0)
                return -ENOMEM;
        uint32_t i = s->n_names++;
        *snapshot_name(s, i) = (struct snapshot_name){
                .directory = directory, .inode = inode, .text = at};
        if (snapshot_inode(s, inode)->name == SNAPSHOT_NONE)
                snapshot_inode(s, inode)->name = i;
        snapshot_index_name(s, i);
        return 0;
}

static int check_limits(const struct walk *w)
{
        if (w->s->n_names >= SNAPSHOT_NAMES_MAX)
                return -E2BIG;
        if (w->s->n_names % CLOCK_EVERY == 0 && now_ms() > w->end_ms)
                return -ETIMEDOUT;
        return 0;
}

static int visit(void *data, int directory, const char *text)
{
        struct walk *w = data;
        struct stat about;
        uint32_t inode = SNAPSHOT_NONE;

        int r = check_limits(w);
        if (r < 0)
                return r;
        r = snapshot_stat(directory, text, &about);
        if (r < 0 || about.st_dev != w->s->device)
                return r == -ENOENT ? 0 : r; /* something is mounted there */
        uint32_t depth = snapshot_inode(w->s, w->directory)->depth + 1;
        if (S_ISDIR(about.st_mode) && depth >= SNAPSHOT_DEPTH_MAX)
                return -ELOOP;
        if (about.st_nlink > 1 && !S_ISDIR(about.st_mode))
                inode = snapshot_find_inode(w->s, about.st_ino, about.st_mode);
        bool is_known = inode != SNAPSHOT_NONE;
        if (!is_known)
                r = add_inode(w->s, &about, &inode);
        if (r >= 0)
                r = add_name(w->s, w->directory, text, inode);
        if (r < 0 || is_known)
                return r;
        snapshot_inode(w->s, inode)->depth = depth;
        if (S_ISREG(about.st_mode))
                return take_file(w, directory, text, &about, inode);
        return S_ISLNK(about.st_mode) ? take_link(w, directory, text, inode) : 0;
}

static bool is_closed_directory(const struct snapshot_inode *inode)
{
        return S_ISDIR(inode->mode) && (inode->mode & OWNER_ALL) != OWNER_ALL;
}

static int read_directory(struct walk *w, uint32_t i)
{
        const struct snapshot_inode *inode = snapshot_inode(w->s, i);

        if (is_closed_directory(inode))
                snapshot_set_mode(w->s, inode->name, inode->mode | OWNER_ALL);
        int fd = snapshot_open_directory(w->s, i);
        if (fd < 0)
                return fd;
        w->directory = i;
        int r = snapshot_each(fd, visit, w);
        snapshot_close(fd);
        return r;
}

/* Directories that are found are appended, and so read later: parents come before what they contain. */
static int walk(struct walk *w)
{
        struct snapshot *s = w->s;
        struct stat about;
        uint32_t root;

        int r = snapshot_stat(AT_FDCWD, s->root, &about);
        if (r >= 0)
                r = S_ISDIR(about.st_mode) ? add_inode(s, &about, &root) : -ENOTDIR;
        if (r < 0)
                return r;
        s->device = about.st_dev;
        for (uint32_t i = 0; i < s->n_inodes && r >= 0; i++) {
                if (S_ISDIR(snapshot_inode(s, i)->mode))
                        r = read_directory(w, i);
        }
        for (uint32_t i = s->n_inodes; i-- > 0;) {
                const struct snapshot_inode *inode = snapshot_inode(s, i);
                if (is_closed_directory(inode))
                        snapshot_set_mode(s, inode->name, inode->mode);
        }
        return r;
}

/* ---- open files and the current directory ---- */

/* An open file that has no name any more belongs to the snapshot too: open descriptors still read it. */
static int take_nameless(struct walk *w, int fd, const struct stat *about, uint32_t *ret)
{
        char link[32];

        if (w->s->n_opens >= SNAPSHOT_NAMES_MAX)
                return -E2BIG;
        int r = add_inode(w->s, about, ret);
        if (r < 0)
                return r;
        snapshot_inode(w->s, *ret)->fd = fd;
        snapshot_fd_path(fd, link);
        int own = (int)raw_call(SYS_openat, AT_FDCWD, raw_pointer(link), O_RDONLY | O_CLOEXEC, 0, 0,
                                0);
        if (own < 0)
                return own;
        r = take_content(w, own, about, *ret);
        snapshot_close(own);
        return r;
}

static int visit_open(void *data, int directory, const char *text)
{
        struct walk *w = data;
        struct stat about = {0};
        int fd = 0;

        for (; *text; text++)
                fd = fd * 10 + (*text - '0');
        if (fd == directory || raw_call(SYS_fstat, fd, raw_pointer(&about), 0, 0, 0, 0) < 0 ||
            !S_ISREG(about.st_mode) || about.st_dev != w->s->device)
                return 0;
        uint32_t inode = snapshot_find_inode(w->s, about.st_ino, about.st_mode);
        int r = inode == SNAPSHOT_NONE ? take_nameless(w, fd, &about, &inode) : 0;
        if (r < 0)
                return r;
        if (arena_append(&w->s->opens, sizeof(struct snapshot_open)) < 0)
                return -ENOMEM;
        *snapshot_open_file(w->s, w->s->n_opens++) = (struct snapshot_open){.fd = fd,
                                                                            .inode = inode};
        return 0;
}

static int take_open_files(struct walk *w)
{
        int fd = (int)raw_call(SYS_openat, AT_FDCWD, raw_pointer("/proc/self/fd"),
                               O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0, 0);
        if (fd < 0)
                return fd;
        int r = snapshot_each(fd, visit_open, w);
        snapshot_close(fd);
        return r;
}

static int take_current_directory(struct snapshot *s)
{
        size_t n = strlen(s->root);

        if (raw_call(SYS_getcwd, raw_pointer(path), sizeof(path), 0, 0, 0, 0) <= 0 ||
            strncmp(path, s->root, n) != 0 || path[n] != '/')
                return 0;
        return append_text(s, path, strlen(path), &s->directory);
}

/* ---- all of it ---- */

static uint32_t *make_slots(void)
{
        long at = raw_call(SYS_mmap, 0, SNAPSHOT_SLOTS * sizeof(uint32_t), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        return snapshot_is_error(at) ? NULL : (uint32_t *)at;
}

/* The rollback needs a directory, also where no inode is free. 0 is not a descriptor of ours: it is
 * standard input. */
static void reserve_inode(struct snapshot *s)
{
        int fd = (int)raw_call(SYS_openat, AT_FDCWD, raw_pointer(s->root),
                               O_TMPFILE | O_RDWR | O_CLOEXEC, 0600, 0, 0);

        s->reserve = fd > 0 ? fd : 0;
}

int snapshot_take(struct snapshot *s, const char *root, uint64_t bytes_max)
{
        struct walk w = {.s = s, .bytes_max = bytes_max, .end_ms = now_ms() + SNAPSHOT_TIME_MS};
        uint32_t none = 0;

        *s = (struct snapshot){.root = root};
        s->by_name = make_slots();
        s->by_number = make_slots();
        int r = s->by_name && s->by_number ? append_text(s, "", 0, &none) : -ENOMEM;
        if (r >= 0)
                r = walk(&w);
        if (r >= 0)
                r = take_open_files(&w);
        if (r >= 0)
                r = take_current_directory(s);
        if (r >= 0)
                reserve_inode(s);
        else
                snapshot_free(s);
        return r;
}

static void free_slots(uint32_t *slots)
{
        if (slots)
                raw_call(SYS_munmap, raw_pointer(slots), SNAPSHOT_SLOTS * sizeof(uint32_t), 0, 0, 0,
                         0);
}

void snapshot_free(struct snapshot *s)
{
        arena_free(&s->names);
        arena_free(&s->inodes);
        arena_free(&s->texts);
        arena_free(&s->contents);
        arena_free(&s->opens);
        free_slots(s->by_name);
        free_slots(s->by_number);
        if (s->reserve > 0)
                snapshot_close(s->reserve);
        *s = (struct snapshot){0};
}
