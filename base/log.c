/* One line for each event, and the file of the log. */
#include "base/log.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/host-file.h"
#include "base/mask.h"
#include "base/printable.h"
#include "base/utf8.h"

static const char *const level_names[] = {
        [LOG_LEVEL_ERROR] = "error",
        [LOG_LEVEL_WARNING] = "warning",
        [LOG_LEVEL_INFO] = "info",
        [LOG_LEVEL_DEBUG] = "debug",
};
static_assert(sizeof(level_names) / sizeof(level_names[0]) == LOG_LEVEL_MAX, "a name a level");

static const char *const format_names[] = {"text", "json", "plain"};
static_assert(sizeof(format_names) / sizeof(format_names[0]) == LOG_FORMAT_MAX, "a name a format");

static enum log_level threshold = LOG_LEVEL_WARNING;
static enum log_format look = LOG_FORMAT_TEXT;

static int place = STDERR_FILENO;
static const char program[] = "cloister"; /* starts each line */

void log_set_level(enum log_level level)
{
        threshold = level;
}

enum log_level log_get_level(void)
{
        return threshold;
}

const char *log_level_name(enum log_level level)
{
        return level_names[level];
}

static int index_of(const char *name, const char *const *names, int n)
{
        for (int i = 0; i < n; i++)
                if (strcmp(names[i], name) == 0)
                        return i;
        return -EINVAL;
}

int log_level_from_name(const char *name)
{
        return index_of(name, level_names, LOG_LEVEL_MAX);
}

int log_format_from_name(const char *name)
{
        return index_of(name, format_names, LOG_FORMAT_MAX);
}

const char *log_format_name(enum log_format format)
{
        return format_names[format];
}

void log_to(int fd, enum log_format format)
{
        place = fd;
        look = format;
}

int log_get_fd(void)
{
        return place;
}

enum log_format log_get_format(void)
{
        return look;
}

/* A line that is being written; text that does not fit is cut. A pipe takes PIPE_BUF bytes atomically
 * (PIPE_BUF, pipe(7)). */
struct line {
        char text[4096];
        size_t n;
};

enum {
        LINE_TAIL = 8, /* space for the end of the line */
        LOG_FD_FIRST = 1000,
};

static void put(struct line *line, const char *text, size_t n)
{
        size_t room = sizeof(line->text) - LINE_TAIL - line->n;

        n = n > room ? room : n;
        memcpy(line->text + line->n, text, n);
        line->n += n;
}

static void put_text(struct line *line, const char *text)
{
        put(line, text, strlen(text));
}

static void put_number(struct line *line, uint64_t number)
{
        char text[24];

        snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
        put_text(line, text);
}

/* text must have no control characters. */
static void put_string(struct line *line, const char *text)
{
        put(line, "\"", 1);
        for (const unsigned char *c = (const unsigned char *)text; *c;) {
                int n = utf8_next(c, 4); /* the NUL byte ends a shorter one */
                /* Cut between characters, with room for the longest. */
                if (line->n + LINE_TAIL + 4 > sizeof(line->text) - LINE_TAIL)
                        break;
                if (*c == '"' || *c == '\\')
                        put(line, "\\", 1);
                if (n > 0)
                        put(line, (const char *)c, (size_t)n);
                else
                        put_text(line, "\xef\xbf\xbd");
                c += n > 0 ? (size_t)n : 1;
        }
        put(line, "\"", 1);
}

static void put_time(struct line *line)
{
        struct timespec now;
        struct tm tm;
        char text[48];

        clock_gettime(CLOCK_REALTIME, &now);
        gmtime_r(&now.tv_sec, &tm);
        size_t n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
        snprintf(text + n, sizeof(text) - n, ".%03ldZ", now.tv_nsec / 1000000);
        put_text(line, text);
}

static void put_id(struct line *line, bool json, const char *name, const char *text,
                   uint64_t number, bool *first)
{
        if (!text && number == 0)
                return;
        put_text(line, json ? ",\"" : *first ? " [" : ", ");
        put_text(line, name);
        put_text(line, json ? "\":" : " ");
        if (!text)
                put_number(line, number);
        else if (json && strcmp(name, "request") != 0)
                put_string(line, text);
        else
                put_text(line, text);
        *first = false;
}

/* The client's id is JSON; its length is limited here, and control characters are already escaped. */
static void put_ids(struct line *line, bool json, const struct log_ids *ids)
{
        char session[128], request[160] = "", server[160], tool[288];
        bool first = true;

        if (!ids)
                return;
        printable_escape(session, sizeof(session), ids->session ? ids->session : "");
        printable_escape(server, sizeof(server), ids->server ? ids->server : "");
        printable_escape(tool, sizeof(tool), ids->tool ? ids->tool : "");
        if (ids->request && strlen(ids->request) < sizeof(request))
                memcpy(request, ids->request, strlen(ids->request) + 1);
        put_id(line, json, "session", *session ? session : NULL, 0, &first);
        put_id(line, json, "request", *request ? request : NULL, 0, &first);
        put_id(line, json, "cell", NULL, ids->cell, &first);
        put_id(line, json, "call", NULL, ids->call, &first);
        put_id(line, json, "server", *server ? server : NULL, 0, &first);
        put_id(line, json, "tool", *tool ? tool : NULL, 0, &first);
        if (!json && !first)
                put_text(line, "]");
}

static void make_text(struct line *line, enum log_level level, const struct log_ids *ids,
                      const char *message)
{
        put_text(line, program);
        put_text(line, ": ");
        put_text(line, level_names[level]);
        put_text(line, ": ");
        put_text(line, message);
        put_ids(line, false, ids);
}

/* As Python's logging writes lines: "12:00:00 cloister WARNING …", in local time. */
static void make_plain(struct line *line, enum log_level level, const struct log_ids *ids,
                       const char *message)
{
        time_t now = time(NULL);
        struct tm tm;
        char text[48];

        localtime_r(&now, &tm);
        strftime(text, sizeof(text), "%H:%M:%S ", &tm);
        put_text(line, text);
        put_text(line, program);
        put_text(line, " ");
        for (const char *c = level_names[level]; *c; c++)
                put(line, (const char[]){(char)toupper((unsigned char)*c)}, 1);
        put_text(line, " ");
        put_text(line, message);
        put_ids(line, false, ids);
}

static void make_json(struct line *line, enum log_level level, const struct log_ids *ids,
                      const char *message)
{
        put_text(line, "{\"time\":\"");
        put_time(line);
        put_text(line, "\",\"level\":\"");
        put_text(line, level_names[level]);
        put_text(line, "\",\"program\":\"");
        put_text(line, program);
        put_text(line, "\"");
        put_ids(line, true, ids);
        put_text(line, ",\"message\":");
        put_string(line, message);
        line->text[line->n++] = '}';
}

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

/* One write, so that lines of several processes do not mix; a log that cannot be written is lost.
 */
static void write_line(int fd, struct line *line)
{
        line->text[line->n++] = '\n';
        if (file.is_bounded && fd == place)
                keep_bound();
        ssize_t written = write(fd, line->text, line->n);
        (void)written;
}

void log_event(enum log_level level, const struct log_ids *ids, const char *format, ...)
{
        char raw[2048] _uninitialized_, message[4096] _uninitialized_;
        struct line line _uninitialized_;
        va_list args;

        if (level > threshold)
                return;
        line.n = 0;
        va_start(args, format);
        vsnprintf(raw, sizeof(raw), format, args);
        va_end(args);
        mask_text(raw);
        printable_escape(message, sizeof(message), raw);

        if (look == LOG_FORMAT_JSON)
                make_json(&line, level, ids, message);
        else if (look == LOG_FORMAT_PLAIN)
                make_plain(&line, level, ids, message);
        else
                make_text(&line, level, ids, message);
        write_line(place, &line);
        if (place != STDERR_FILENO && level == LOG_LEVEL_ERROR) {
                line.n = 0;
                make_text(&line, level, ids, message);
                write_line(STDERR_FILENO, &line);
        }
}

bool log_file_is_bounded(void)
{
        return file.is_bounded;
}

void log_file_append(const char *lines, size_t n)
{
        keep_bound();
        fd_write_all(place, lines, n);
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
