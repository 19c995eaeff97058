/* One line for each event, and the file of the log. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/host-file.h"
#include "base/journald.h"
#include "base/log-line.h"
#include "base/mask.h"
#include "base/printable.h"

static enum log_level threshold = LOG_LEVEL_WARNING;
static enum log_format look = LOG_FORMAT_TEXT;

static int place = STDERR_FILENO;
static char node_name[LOG_NODE_MAX + 1];
static const char program[] = "cloister"; /* starts each line */

void log_set_level(enum log_level level)
{
        threshold = level;
}

enum log_level log_get_level(void)
{
        return threshold;
}

void log_to(int fd, enum log_format format)
{
        log_flush();
        place = fd;
        look = format;
}

void log_set_node(const char *node)
{
        snprintf(node_name, sizeof(node_name), "%s", node);
}

int log_get_fd(void)
{
        return place;
}

enum log_format log_get_format(void)
{
        return look;
}

enum {
        LOG_FD_FIRST = 1000,
        MESSAGE_MAX = 2048,
        TELL_US = 1000000,
        WAITING_MAX = 8, /* lines */
        WAITING_SIZE = LOG_RECORD_MAX + PIPE_BUF,
};

/* ---- the file, which has a bound ---- */

static struct {
        bool is_bounded;
        pid_t owner;         /* a child that inherited the log does not touch the file's name */
        int folder;          /* -1: the file is not renamed */
        char name[NAME_MAX]; /* in the folder */
        char old[NAME_MAX + 4];
} file = {.folder = -1};

static bool is_same(const struct stat *a, const struct stat *b)
{
        return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Another process with this log has renamed it, or its owner did. Returns whether there is a new one to
 * write to. */
static bool follow(const struct stat *ours)
{
        struct stat st;

        if (fstatat(file.folder, file.name, &st, AT_SYMLINK_NOFOLLOW) < 0 || is_same(&st, ours))
                return false;
        _cleanup_close_ int fd = openat(file.folder, file.name,
                                        O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        return fd >= 0 && host_file_check(HOST_FILE_LOG, fd, ours->st_uid, &st, NULL) >= 0 &&
               st.st_size < LOG_FILE_MAX && dup3(fd, place, O_CLOEXEC) >= 0;
}

/* Renames the open log file to its old name and opens a new one. */
static bool replace(void)
{
        if (renameat(file.folder, file.name, file.folder, file.old) < 0 && errno != ENOENT)
                return false;
        _cleanup_close_ int fd = host_file_open(HOST_FILE_LOG, file.folder, file.name, NULL);
        return fd >= 0 && dup3(fd, place, O_CLOEXEC) >= 0;
}

static void keep_bound(void)
{
        struct stat st;

        if (fstat(place, &st) < 0 || st.st_size < LOG_FILE_MAX || getpid() != file.owner)
                return;
        if (file.folder < 0 || (!follow(&st) && !replace()))
                (void)!ftruncate(place, 0);
}

/* ---- writing ---- */

/* Lines that were lost. */
static struct {
        uint64_t all;
        uint64_t told;    /* of these, how many the log has told of */
        uint64_t others;  /* in other processes */
        uint64_t told_us; /* when */
        bool is_torn;     /* the last line was written in part: the next one begins anew */
} lost;

uint64_t log_errors(void)
{
        return lost.all + lost.others;
}

void log_add_errors(uint64_t n)
{
        lost.others += n;
}

/* ---- lines that wait ---- */

/* A line for programs that need not be written at once waits for the next one, or for log_flush(): each write wakes the process that reads
 * it, which costs more than to make the line. */
static struct {
        void (*later)(void *data); /* NULL: no line waits */
        void *data;
        size_t n, used;
        size_t ends[WAITING_MAX];
        char bytes[WAITING_SIZE];
} waiting;

/* One write, so that lines of several processes do not mix. Returns whether all was written. */
static bool write_whole(int fd, const char *bytes, size_t n)
{
        static char newline[] = "\n";
        const struct iovec parts[] = {{newline, 1}, {(char *)(uintptr_t)bytes, n}};
        bool begins_anew = lost.is_torn && fd == place && look != LOG_FORMAT_JOURNAL;
        ssize_t written;

        do
                written = begins_anew ? writev(fd, parts, 2) : write(fd, bytes, n);
        while (written < 0 && errno == EINTR);
        if (fd == place)
                lost.is_torn = written > 0 ? (size_t)written < n + begins_anew : begins_anew;
        return written == (ssize_t)(n + begins_anew);
}

static void write_place(const char *bytes, size_t n, size_t lines)
{
        if (file.is_bounded)
                keep_bound();
        if (!write_whole(place, bytes, n))
                lost.all += lines;
}

/* An entry is a datagram. Those that journald does not take are lost. */
static void send_waiting(void)
{
        struct mmsghdr messages[WAITING_MAX] = {};
        struct iovec parts[WAITING_MAX];
        size_t from = 0, done = 0;

        for (size_t i = 0; i < waiting.n; i++) {
                parts[i] = (struct iovec){waiting.bytes + from, waiting.ends[i] - from};
                messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
                from = waiting.ends[i];
        }
        while (done < waiting.n) {
                int r = sendmmsg(place, messages + done, (unsigned)(waiting.n - done),
                                 MSG_NOSIGNAL);
                if (r < 0 && errno == EINTR)
                        continue;
                lost.all += r < 0;
                done += r < 0 ? 1 : (size_t)r;
        }
}

void log_flush(void)
{
        if (waiting.n == 0)
                return;
        if (look == LOG_FORMAT_JOURNAL && waiting.n > 1)
                send_waiting();
        else
                write_place(waiting.bytes, waiting.used, waiting.n);
        waiting.n = waiting.used = 0;
}

void log_set_later(void (*later)(void *data), void *data)
{
        log_flush();
        waiting.later = later;
        waiting.data = data;
}

/* Lines are written in their order, several with one write if a pipe takes them whole. */
static void write_line(const struct log_line *line, bool may_wait)
{
        bool is_joined = look == LOG_FORMAT_JOURNAL ? waiting.used + line->n <= WAITING_SIZE
                                                    : waiting.used + line->n <= PIPE_BUF;

        may_wait = may_wait && waiting.later;
        if (!is_joined || waiting.n == WAITING_MAX)
                log_flush();
        if (!may_wait && waiting.n == 0) {
                write_place(line->text, line->n, 1);
                return;
        }
        memcpy(waiting.bytes + waiting.used, line->text, line->n);
        waiting.used += line->n;
        waiting.ends[waiting.n++] = waiting.used;
        if (!may_wait)
                log_flush();
        else if (waiting.n == 1)
                waiting.later(waiting.data);
}

static const struct log_source *source(void)
{
        static const struct log_source named = {program, node_name};

        return &named;
}

/* A line about those that were lost, before the next one that is written; at most one in TELL_US. */
static void tell_lost(void)
{
        struct log_line line _uninitialized_;
        char text[96];
        const struct log_message message = {LOG_LEVEL_WARNING, NULL, NULL, text};
        uint64_t n = lost.all, now = clock_us();

        if (n == lost.told || (lost.told_us > 0 && now - lost.told_us < TELL_US))
                return;
        snprintf(text, sizeof(text), "%llu lines of the log could not be written",
                 (unsigned long long)(n - lost.told));
        log_line_make(&line, look, source(), &message);
        if (!write_whole(place, line.text, line.n))
                return;
        lost.told = n;
        lost.told_us = now;
}

__attribute__((format(printf, 4, 0))) static void write_event(enum log_level level,
                                                              const struct log_ids *ids,
                                                              const struct log_record *record,
                                                              const char *format, va_list args)
{
        char raw[MESSAGE_MAX] _uninitialized_, text[2 * MESSAGE_MAX] _uninitialized_;
        struct log_line line _uninitialized_;
        const struct log_message message = {level, ids, record, text};

        if (look == LOG_FORMAT_JOURNAL && !journald_allows(record != NULL)) {
                lost.all++;
                return;
        }
        vsnprintf(raw, sizeof(raw), format, args);
        mask_text(raw);
        printable_escape(text, sizeof(text), raw);
        tell_lost();
        log_line_make(&line, look, source(), &message);
        write_line(&line, record && record->may_wait);
        if (place != STDERR_FILENO && level == LOG_LEVEL_ERROR && look != LOG_FORMAT_JOURNAL) {
                log_line_make(&line, LOG_FORMAT_TEXT, source(), &message);
                (void)write_whole(STDERR_FILENO, line.text, line.n);
        }
}

void log_event(enum log_level level, const struct log_ids *ids, const char *format, ...)
{
        va_list args;

        if (level > threshold)
                return;
        va_start(args, format);
        write_event(level, ids, NULL, format, args);
        va_end(args);
}

void log_record(enum log_level level, const struct log_ids *ids, const struct log_record *record,
                const char *format, ...)
{
        va_list args;

        if (level > threshold)
                return;
        va_start(args, format);
        write_event(level, ids, record, format, args);
        va_end(args);
}

bool log_file_is_bounded(void)
{
        return file.is_bounded;
}

static uint64_t count_lines(const char *lines, size_t n)
{
        uint64_t count = 0;

        for (const char *end = lines + n; (lines = memchr(lines, '\n', (size_t)(end - lines)));
             lines++)
                count++;
        return count;
}

void log_file_append(const char *lines, size_t n)
{
        if (n == 0)
                return;
        keep_bound();
        if (!write_whole(place, lines, n))
                lost.all += count_lines(lines, n) ?: 1;
        else
                tell_lost();
}

/* So that it can be renamed whatever happens to the folders above it. */
static void open_folder(const char *path)
{
        const char *slash = strrchr(path, '/');
        _cleanup_free_ char *folder = slash ? strndup(path, (size_t)(slash - path) + 1)
                                            : strdup(".");
        const char *name = slash ? slash + 1 : path;

        if (!folder || strlen(name) + 3 > NAME_MAX)
                return;
        _cleanup_close_ int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
        file.folder = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, LOG_FD_FIRST);
        snprintf(file.name, sizeof(file.name), "%s", name);
        snprintf(file.old, sizeof(file.old), "%s.1", name);
}

int log_file_open(const char *path, enum log_format format, struct error *err)
{
        file.is_bounded = false;
        file.folder = -1;
        if (format == LOG_FORMAT_JOURNAL)
                return error_set(
                        err, EINVAL,
                        "--log-format journal: only without --log-file, and not for this command");
        if (!path) {
                log_to(STDERR_FILENO, format);
                return 0;
        }
        _cleanup_close_ int fd = host_file_open(HOST_FILE_LOG, AT_FDCWD, path, err);
        if (fd == -ELOOP)
                return error_set(err, ELOOP, "--log-file %s: it is a link; name the file itself",
                                 path);
        if (fd < 0)
                return error_context(err, "--log-file %s", path);
        int high = fcntl(fd, F_DUPFD_CLOEXEC, LOG_FD_FIRST);
        if (high < 0)
                return error_errno(err, errno, "--log-file %s", path);
        log_to(high, format);
        file.is_bounded = true;
        file.owner = getpid();
        open_folder(path);
        return 0;
}

int log_file_reopen(struct error *err)
{
        if (!file.is_bounded || file.folder < 0)
                return 0;
        _cleanup_close_ int fd = host_file_open(HOST_FILE_LOG, file.folder, file.name, err);
        if (fd < 0)
                return error_context(err, "--log-file %s", file.name);
        return dup3(fd, place, O_CLOEXEC) < 0 ? error_errno(err, errno, "--log-file %s", file.name)
                                              : 0;
}
