/* Which files in /workspace have changed. */
#include "sandbox-init/init/changes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "rpc/file-changes.h"
#include "rpc/sandbox-messages.h"

enum {
        FILES_MAX = FILE_CHANGES_FILES_MAX,
        PATHS_SIZE = 1024 * 1024, /* of all paths together */
        INDEX_SIZE = 1 << 16,     /* a power of two, above 2 * FILES_MAX */
        DEPTH_MAX = 64,           /* each level has a descriptor, and LIST_SIZE bytes of stack */
        LIST_SIZE = 4096,
        LONG_LOOK_NS = 2 * 1000 * 1000,
        LONGEST_LOOK_NS = 100 * 1000 * 1000,
        CLOCK_EVERY = 64, /* names between two readings of the clock: a power of two */
};
static_assert(INDEX_SIZE > 2 * FILES_MAX && FILES_MAX < UINT16_MAX, "the index");

struct file {
        uint64_t hash; /* of its path */
        uint64_t inode, size, blocks;
        int64_t changed_s;
        uint32_t changed_ns, mode;
        uint32_t path; /* where it begins in `paths` */
        uint16_t length;
        uint8_t type;
        uint8_t change; /* enum file_change, or FILE_CHANGE_MAX: none */
};

struct scan {
        struct file *files;    /* FILES_MAX */
        char *paths;           /* PATHS_SIZE */
        size_t n, used, steps; /* files, bytes of paths, names that were seen */
        enum file_changes_limit limit;
        uint32_t unreadable;
};

/* Memory that no scan has needed has no pages. */
static struct file files[2][FILES_MAX];
static char paths[2][PATHS_SIZE];
static uint16_t by_hash[INDEX_SIZE]; /* of the files of the last scan, by hash: number + 1, or 0 */
static char message[FILE_CHANGES_MESSAGE_MAX];

static struct {
        struct scan scans[2], *last, *now;
        size_t mask;
        uint64_t key; /* makes the hash unknown to the code that chooses the names */
        int64_t began_ns, took_ns;
        bool is_bare; /* nothing was ever written: `out` is all that exists, and no scan was made */
        struct stat out;
} changes = {
        .scans = {{.files = files[0], .paths = paths[0]}, {.files = files[1], .paths = paths[1]}},
        .last = &changes.scans[0],
        .now = &changes.scans[1],
};

/* Of the processor: init shares it with the code. */
static int64_t cpu_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static bool is_late(void)
{
        return ++changes.now->steps % CLOCK_EVERY == 0 &&
               cpu_ns() - changes.began_ns > LONGEST_LOOK_NS;
}

/* ---- what there is ---- */

static int give_up(enum file_changes_limit limit)
{
        changes.now->limit = limit;
        return -1;
}

static uint64_t hash(const char *path, size_t n)
{
        uint64_t h = changes.key;

        for (size_t i = 0; i < n; i++) {
                h = (h ^ (unsigned char)path[i]) * UINT64_C(0x9e3779b97f4a7c15);
                h ^= h >> 29;
        }
        return h;
}

/* Appends the directory's path, a slash and the name. Returns its length, or -1. */
static long add_path(const struct file *directory, const char *name)
{
        struct scan *now = changes.now;
        size_t before = directory ? directory->length + 1U : 0, n = strnlen(name, NAME_MAX);

        if (before + n > UINT16_MAX || before + n > PATHS_SIZE - now->used)
                return give_up(FILE_CHANGES_NAMES);
        char *to = now->paths + now->used;
        if (directory) {
                memcpy(to, now->paths + directory->path, directory->length);
                to[directory->length] = '/';
        }
        memcpy(to + before, name, n);
        return (long)(before + n);
}

/* Returns the file. NULL: a limit is reached. */
static struct file *take(const struct file *directory, const char *name, const struct stat *st)
{
        struct scan *now = changes.now;
        long length = add_path(directory, name);

        if (length < 0)
                return NULL;
        struct file *file = &now->files[now->n++];
        *file = (struct file){
                .hash = hash(now->paths + now->used, (size_t)length),
                .inode = st->st_ino,
                .size = (uint64_t)st->st_size,
                .blocks = (uint64_t)st->st_blocks,
                .changed_s = st->st_ctim.tv_sec,
                .changed_ns = (uint32_t)st->st_ctim.tv_nsec,
                .mode = st->st_mode,
                .path = (uint32_t)now->used,
                .length = (uint16_t)length,
                .type = IFTODT(st->st_mode),
                .change = FILE_CHANGE_MAX,
        };
        now->used += (size_t)length;
        return file;
}

/* Returns the file. NULL: it does not exist any more, may not be read (*denied), or a limit is reached. */
static struct file *add(int dir, const struct file *directory, const char *name, bool *denied)
{
        struct scan *now = changes.now;
        struct stat st;

        if (now->n == FILES_MAX || is_late()) {
                give_up(now->n == FILES_MAX ? FILE_CHANGES_NUMBER : FILE_CHANGES_TIME);
                return NULL;
        }
        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
                *denied = *denied || errno == EACCES;
                return NULL;
        }
        return take(directory, name, &st);
}

static int walk(int dir, const struct file *directory, int depth);

/* A directory that has become a link or a file since is scanned the next time. */
static int enter(int dir, const struct file *directory, const char *name, int depth)
{
        if (depth == DEPTH_MAX)
                return give_up(FILE_CHANGES_DEPTH);
        int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) {
                changes.now->unreadable += errno == EACCES;
                return errno == EMFILE || errno == ENFILE ? give_up(FILE_CHANGES_DEPTH) : 0;
        }
        int r = walk(fd, directory, depth + 1);
        close(fd);
        return r;
}

static int walk(int dir, const struct file *directory, int depth)
{
        _Alignas(struct dirent64) char list[LIST_SIZE];
        bool denied = false;
        long size;

        while ((size = syscall(SYS_getdents64, dir, list, sizeof(list))) > 0) {
                for (long at = 0; at < size;) {
                        const struct dirent64 *entry = (const void *)(list + at);
                        at += entry->d_reclen;
                        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                                continue;
                        const struct file *file = add(dir, directory, entry->d_name, &denied);
                        if (changes.now->limit != FILE_CHANGES_WHOLE)
                                return -1;
                        if (file && file->type == DT_DIR &&
                            enter(dir, file, entry->d_name, depth) < 0)
                                return -1;
                }
        }
        changes.now->unreadable += denied;
        return 0;
}

static void scan_all(void)
{
        struct scan *now = changes.now;

        now->n = now->used = now->steps = now->unreadable = 0;
        now->limit = FILE_CHANGES_WHOLE;
        int root = openat(INIT_WORKSPACE_FD, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (root < 0) {
                now->unreadable = 1;
                return;
        }
        walk(root, NULL, 0);
        close(root);
}

/* ---- what is different ---- */

static void index_last(void)
{
        const struct scan *last = changes.last;

        changes.mask = 15;
        while (changes.mask < 2 * last->n)
                changes.mask = 2 * changes.mask + 1;
        memset(by_hash, 0, (changes.mask + 1) * sizeof(by_hash[0]));
        for (size_t i = 0; i < last->n; i++) {
                size_t at = last->files[i].hash & changes.mask;
                while (by_hash[at] != 0)
                        at = (at + 1) & changes.mask;
                by_hash[at] = (uint16_t)(i + 1);
        }
}

static struct file *find_last(const struct file *file)
{
        struct scan *last = changes.last;
        const char *path = changes.now->paths + file->path;

        for (size_t at = file->hash & changes.mask; by_hash[at] != 0;
             at = (at + 1) & changes.mask) {
                struct file *other = &last->files[by_hash[at] - 1];
                if (other->hash == file->hash && other->length == file->length &&
                    memcmp(last->paths + other->path, path, file->length) == 0)
                        return other;
        }
        return NULL;
}

/* The status of a directory changes with what is in it: that is listed itself. */
static bool is_same(const struct file *a, const struct file *b)
{
        if (a->inode != b->inode || a->mode != b->mode)
                return false;
        return a->type == DT_DIR ||
               (a->size == b->size && a->blocks == b->blocks && a->changed_s == b->changed_s &&
                a->changed_ns == b->changed_ns);
}

/* Notes in each file what has become of it, and counts. */
static void compare(uint32_t number[FILE_CHANGE_MAX])
{
        struct scan *last = changes.last, *now = changes.now;

        index_last();
        for (size_t i = 0; i < last->n; i++)
                last->files[i].change = FILE_DELETED;
        for (size_t i = 0; i < now->n; i++) {
                struct file *file = &now->files[i], *before = find_last(file);
                if (before)
                        before->change = FILE_CHANGE_MAX;
                if (before && is_same(file, before))
                        continue;
                file->change = before ? FILE_CHANGED : FILE_NEW;
                number[file->change]++;
        }
        for (size_t i = 0; i < last->n; i++) {
                if (now->unreadable > 0)
                        last->files[i].change = FILE_CHANGE_MAX;
                number[FILE_DELETED] += last->files[i].change == FILE_DELETED;
        }
}

/* ---- the report ---- */

struct report {
        struct file_changes_message head;
        size_t length;   /* of the message that is being made */
        int n_messages;  /* that were written */
        bool is_refused; /* the pipe is full, or the list long enough */
};

static void flush(struct report *r)
{
        memcpy(message, &r->head, sizeof(r->head));
        ssize_t n = write(INIT_CHANGES_FD, message, r->length);
        r->is_refused = n != (ssize_t)r->length || ++r->n_messages == FILE_CHANGES_MESSAGES_MAX;
        r->head = (struct file_changes_message){.is_more = 1};
        r->length = sizeof(r->head);
}

static void put(struct report *r, const struct scan *scan, const struct file *file)
{
        const struct file_changes_entry entry = {.size = file->size,
                                                 .change = file->change,
                                                 .type = file->type,
                                                 .length = file->length};

        if (file->change == FILE_CHANGE_MAX || file->length > FILE_CHANGES_PATH_MAX)
                return;
        if (r->length + sizeof(entry) + file->length > FILE_CHANGES_MESSAGE_MAX)
                flush(r);
        if (r->is_refused)
                return;
        memcpy(message + r->length, &entry, sizeof(entry));
        memcpy(message + r->length + sizeof(entry), scan->paths + file->path, file->length);
        r->length += sizeof(entry) + file->length;
        r->head.n++;
}

/* Returns true if the scan is reported to the broker. */
static bool tell(void)
{
        struct scan *last = changes.last, *now = changes.now;
        struct report r = {.head = {.limit = now->limit, .unreadable = now->unreadable},
                           .length = sizeof(r.head)};
        bool is_compared = now->limit == FILE_CHANGES_WHOLE && last->limit == FILE_CHANGES_WHOLE;

        if (is_compared)
                compare(r.head.number);
        else if (now->limit == FILE_CHANGES_WHOLE)
                r.head.limit = FILE_CHANGES_AGAIN;
        for (size_t i = 0; is_compared && i < now->n && !r.is_refused; i++)
                put(&r, now, &now->files[i]);
        for (size_t i = 0; is_compared && i < last->n && !r.is_refused; i++)
                put(&r, last, &last->files[i]);
        if (!r.is_refused && (r.n_messages == 0 || r.head.n > 0))
                flush(&r);
        return r.n_messages > 0;
}

static void swap(void)
{
        struct scan *now = changes.now;

        changes.now = changes.last;
        changes.last = now;
}

/* ---- a session that has written nothing ---- */

/*
 * A tmpfs counts each file, directory and link, and each further name of a file (shmem_reserve_inode() in mm/shmem.c of the kernel), also a
 * file that has no name any more. So if it has two, and out/ exists, there is only that in the root. Most sessions write
 * nothing: no list is read for them, and the memory of scans is not touched.
 */
static bool is_bare(struct stat *out)
{
        struct statfs fs;

        return fstatfs(INIT_WORKSPACE_FD, &fs) == 0 && fs.f_type == TMPFS_MAGIC && fs.f_files > 0 &&
               fs.f_files - fs.f_ffree == 2 &&
               fstatat(INIT_WORKSPACE_FD, "out", out, AT_SYMLINK_NOFOLLOW) == 0 &&
               S_ISDIR(out->st_mode);
}

/* Returns true if it is as it was at the first scan, and reports that. */
static bool report_bare(void)
{
        const struct file_changes_message nothing = {};
        struct stat out;

        if (!is_bare(&out) || out.st_ino != changes.out.st_ino ||
            out.st_mode != changes.out.st_mode)
                return false;
        /* A pipe that is full, or has no reader, gets no report, as in tell(). */
        return write(INIT_CHANGES_FD, &nothing, sizeof(nothing)) != 0;
}

void changes_open(void)
{
        const void *random = (const void *)getauxval(AT_RANDOM); /* 16 bytes */

        memcpy(&changes.key, random, sizeof(changes.key));
        changes.is_bare = is_bare(&changes.out);
        if (changes.is_bare)
                return;
        changes.began_ns = cpu_ns();
        scan_all();
        swap();
}

void changes_report(bool is_wanted)
{
        if (!is_wanted && changes.took_ns > LONG_LOOK_NS)
                return;
        if (changes.is_bare && report_bare())
                return;
        if (changes.is_bare) {
                take(NULL, "out", &changes.out);
                swap();
        }
        changes.is_bare = false;
        changes.began_ns = cpu_ns();
        scan_all();
        if (tell())
                swap();
        changes.took_ns = cpu_ns() - changes.began_ns;
}
