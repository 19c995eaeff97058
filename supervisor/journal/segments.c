/* Files of the journal. */
#include "supervisor/journal/segments.h"

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
#include "base/clock.h"
#include "base/fd.h"
#include "base/host-file.h"
#include "base/path.h"

enum { LOCK_WAIT_MS = 5000, NAME_SIZE = 32 };

/* Also of one that may not be opened. */
static int check_owner(const struct stat *st, const char *path, struct error *err)
{
        return st->st_uid == geteuid()
                       ? 0
                       : error_set(err, EPERM, "%s belongs to user %u, not to user %u", path,
                                   st->st_uid, geteuid());
}

static int check_directory(int fd, const char *path, struct error *err)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return error_errno(err, errno, "%s", path);
        int r = check_owner(&st, path, err);
        if (r < 0)
                return r;
        if (st.st_mode & 077)
                return error_set(err, EPERM,
                                 "%s is open to other users (mode %04o): 'chmod go= %s'", path,
                                 st.st_mode & 07777, path);
        return 0;
}

int segments_open(const char *path, bool make, struct error *err)
{
        int r = make ? path_make_directories(path, 0700) : 0;

        if (r < 0)
                return error_errno(err, -r, "make %s", path);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
                return error_set(err, errno,
                                 "%s is not a directory; a symbolic link is not followed", path);
        if (fd < 0) {
                int code = errno;
                struct stat st;
                if (lstat(path, &st) == 0 && (r = check_owner(&st, path, err)) < 0)
                        return r;
                return error_errno(err, code, "open %s", path);
        }
        r = check_directory(fd, path, err);
        return r < 0 ? r : take_fd(fd);
}

int segments_lock(int directory, struct error *err)
{
        const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
        uint64_t until = clock_ms() + LOCK_WAIT_MS;

        _cleanup_close_ int fd = host_file_open(HOST_FILE_JOURNAL_LOCK, directory, "lock", err);
        if (fd < 0)
                return error_context(err, "open lock");
        while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                if (errno != EWOULDBLOCK && errno != EINTR)
                        return error_errno(err, errno, "lock");
                if (clock_ms() > until)
                        return error_set(err, ETIMEDOUT,
                                         "another Cloister holds the file lock for too long");
                nanosleep(&pause, NULL);
        }
        return take_fd(fd);
}

/* The number of N.jsonl or N.heads; 0: it is another name. */
static uint32_t number_of(const char *name, const char *suffix)
{
        char *end;

        if (*name < '1' || *name > '9')
                return 0;
        unsigned long number = strtoul(name, &end, 10);
        return number < UINT32_MAX && strcmp(end, suffix) == 0 ? (uint32_t)number : 0;
}

static int by_number(const void *a, const void *b)
{
        const struct segment_entry *one = a, *other = b;

        return one->number < other->number ? -1 : one->number > other->number;
}

static void fill(int directory, struct segment_entry *entry)
{
        char name[NAME_SIZE];
        struct stat st;

        snprintf(name, sizeof(name), "%u.jsonl", entry->number);
        if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
                entry->bytes = entry->all_bytes = st.st_size;
                entry->modified_ms = st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
        }
        snprintf(name, sizeof(name), "%u.heads", entry->number);
        if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                entry->all_bytes += st.st_size;
}

int segments_list(int directory, struct segments *ret, struct error *err)
{
        _cleanup_closedir_ DIR *stream = fd_open_directory(directory, ".");
        struct segments s = {};
        struct dirent *entry;
        size_t room = 0;

        if (!stream)
                return error_errno(err, errno, "read the journal's directory");
        while ((entry = fd_next_entry(stream))) {
                uint32_t number = number_of(entry->d_name, ".jsonl");
                if (number == 0)
                        continue;
                if (s.n == room) {
                        room = room ? 2 * room : 64;
                        void *more = s.n < SEGMENTS_MAX ? realloc(s.list, room * sizeof(*s.list))
                                                        : NULL;
                        if (!more) {
                                segments_done(&s);
                                return error_set(err, E2BIG, "the journal has too many files");
                        }
                        s.list = more;
                }
                s.list[s.n++] = (struct segment_entry){.number = number};
        }
        if (s.n > 0)
                qsort(s.list, s.n, sizeof(*s.list), by_number);
        for (size_t i = 0; i < s.n; i++) {
                fill(directory, &s.list[i]);
                s.bytes += s.list[i].all_bytes;
        }
        *ret = s;
        return 0;
}

void segments_done(struct segments *segments)
{
        free(segments->list);
        *segments = (struct segments){};
}

int segment_open(int directory, uint32_t number, bool write, struct error *err)
{
        char name[NAME_SIZE];
        struct stat st;

        snprintf(name, sizeof(name), "%u.jsonl", number);
        _cleanup_close_ int fd = openat(directory, name,
                                        (write ? O_RDWR | O_APPEND : O_RDONLY) | O_CLOEXEC |
                                                O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_errno(err, errno, "open %s", name);
        if (!S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_uid != geteuid() ||
            (st.st_mode & 077))
                return error_set(
                        err, EPERM,
                        "%s is not a regular file of this user with one name and mode 0600", name);
        return take_fd(fd);
}

bool segment_take(int fd)
{
        return flock(fd, LOCK_EX | LOCK_NB) == 0;
}

bool segment_is_owned(int fd)
{
        if (flock(fd, LOCK_SH | LOCK_NB) < 0)
                return true;
        flock(fd, LOCK_UN);
        return false;
}

static int take_empty(int directory, const struct segments *segments, uint32_t *number)
{
        for (size_t i = 0; i < segments->n; i++) {
                if (segments->list[i].all_bytes > 0)
                        continue;
                int fd = segment_open(directory, segments->list[i].number, true, NULL);
                struct stat st;
                if (fd >= 0 && segment_take(fd) && fstat(fd, &st) == 0 && st.st_size == 0) {
                        *number = segments->list[i].number;
                        return fd;
                }
                if (fd >= 0)
                        close(fd);
        }
        return -ENOENT;
}

int segment_make(int directory, const struct segments *segments, uint32_t *number,
                 struct error *err)
{
        uint32_t last = segments->n > 0 ? segments->list[segments->n - 1].number : 0;
        char name[NAME_SIZE];

        int fd = take_empty(directory, segments, number);
        if (fd >= 0)
                return fd;
        snprintf(name, sizeof(name), "%u.jsonl", last + 1);
        fd = host_file_open(HOST_FILE_JOURNAL_SEGMENT, directory, name, err);
        if (fd < 0)
                return error_context(err, "make %s", name);
        if (!segment_take(fd) || fsync(directory) < 0) {
                int code = errno;
                close(fd);
                return error_errno(err, code, "make %s", name);
        }
        *number = last + 1;
        return fd;
}

int segment_remove(int directory, uint32_t number, struct error *err)
{
        static const char *const suffixes[] = {"heads", "jsonl"};
        char name[NAME_SIZE];

        /* The records last: without them, a file of heads alone would never be removed. */
        for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
                snprintf(name, sizeof(name), "%u.%s", number, suffixes[i]);
                if (unlinkat(directory, name, 0) < 0 && errno != ENOENT)
                        return error_errno(err, errno, "remove %s", name);
        }
        return 0;
}
