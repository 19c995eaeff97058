/* Files of this machine -> a session. */
#include "supervisor/cli/sessions/copy-in.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "rpc/file-stream.h"

enum { DEPTH_MAX = 16, REQUEST_MAX = 2 * 1024 * 1024 };

/* A piece of a file that is written as temporary; to: its name from now on, or NULL. bytes NULL: it is removed. */
struct piece {
        const char *temporary, *to, *bytes;
        size_t n;
        uint64_t offset;
};

static int put(struct copy *copy, const struct piece *p, struct error *err)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(REQUEST_MAX),
                                       data = BUFFER_INIT(REQUEST_MAX);
        _cleanup_json_ yyjson_doc *answer = NULL;
        struct json_out out = {.to = &params};
        yyjson_val *result;

        int r = base64_append(&data, p->bytes, p->n);
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "name", copy->end.session);
        json_out_text(&out, "path", p->temporary);
        json_out_int(&out, "offset", (int64_t)p->offset);
        json_out_string(&out, "data", buffer_bytes(&data), data.length);
        if (p->to)
                json_out_text(&out, "to", p->to);
        json_out_bool(&out, "discard", p->bytes == NULL);
        json_out_end(&out, '}');
        if (r < 0 || out.error < 0)
                return error_errno(err, r < 0 ? -r : -out.error, "copy");
        return server_link_ask(&copy->link, "files/put", &params, &answer, &result, err);
}

static void discard(struct copy *copy, const char *temporary)
{
        const struct piece p = {.temporary = temporary};
        struct error ignored = {};

        put(copy, &p, &ignored);
}

/* A name beside the file's, which no other copy uses. */
static int temporary_of(const struct copy *copy, const char *to, char ret[FILE_PATH_MAX + 1])
{
        const char *slash = strrchr(to, '/');
        int n = snprintf(ret, FILE_PATH_MAX + 1, "%.*s.cloister-cp-%d-%llu.part",
                         slash ? (int)(slash - to + 1) : 0, to, (int)getpid(),
                         (unsigned long long)copy->files);

        return n > FILE_PATH_MAX ? -ENAMETOOLONG : 0;
}

/* Returns 0, or negative errno; the part that was written is left then. */
static int send_content(struct copy *copy, int fd, const char *temporary, const char *to,
                        struct error *err)
{
        _cleanup_free_ char *bytes = malloc(COPY_PIECE), *next = malloc(COPY_PIECE);
        struct piece p = {.temporary = temporary};

        if (!bytes || !next)
                return error_errno(err, ENOMEM, "copy");
        ssize_t n = fd_read_full(fd, bytes, COPY_PIECE), more = 0;
        for (;;) {
                if (n == COPY_PIECE)
                        more = fd_read_full(fd, next, COPY_PIECE);
                else
                        more = 0;
                if (n < 0 || more < 0)
                        return error_errno(err, (int)-(n < 0 ? n : more), "read");
                if (copy->bytes + (uint64_t)n > FILE_STREAM_BYTES_MAX)
                        return error_set(err, EFBIG, "more than %llu GiB",
                                         FILE_STREAM_BYTES_MAX >> 30);
                p.bytes = bytes;
                p.n = (size_t)n;
                p.to = more == 0 ? to : NULL;
                int r = put(copy, &p, err);
                if (r < 0)
                        return r;
                p.offset += (uint64_t)n;
                copy_progress(copy, (size_t)n);
                if (more == 0)
                        return 0;
                char *swap = bytes;
                bytes = next;
                next = swap;
                n = more;
        }
}

static int copy_file(struct copy *copy, int fd, const char *to, struct error *err)
{
        char temporary[FILE_PATH_MAX + 1];

        if (!file_path_valid(to, strlen(to)) || temporary_of(copy, to, temporary) < 0)
                return error_set(err, EINVAL, "%.200s cannot be a name below /workspace", to);
        int r = send_content(copy, fd, temporary, to, err);
        if (r < 0 && r != -EPIPE)
                discard(copy, temporary);
        if (r >= 0)
                copy->files++;
        return r;
}

/* Returns whether the whole copy must end with this error. */
static bool is_final(int r)
{
        return r == -EPIPE || r == -ENOENT || r == -EBUSY || r == -EFBIG;
}

static int walk(struct copy *copy, int directory, const char *shown, const char *to, int depth,
                struct error *err);

/* An entry of a directory; no link is followed. */
static int walk_entry(struct copy *copy, int directory, const char *name, const char *shown,
                      const char *to, int depth, struct error *err)
{
        char below[FILE_PATH_MAX + 1], path[4096];
        struct error own = {};
        struct stat st;

        snprintf(path, sizeof(path), "%s/%s", shown, name);
        _cleanup_close_ int fd = openat(directory, name,
                                        O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        if (fd < 0 || fstat(fd, &st) < 0) {
                copy_skip(copy, path,
                          errno == ELOOP ? "a symbolic link is not copied" : strerror(errno));
                return 0;
        }
        if (copy_join(to, name, below) < 0) {
                copy_skip(copy, path, "its path is too long");
                return 0;
        }
        if (S_ISDIR(st.st_mode)) {
                if (depth == DEPTH_MAX)
                        copy_skip(copy, path, "too deep");
                return depth == DEPTH_MAX ? 0
                                          : walk(copy, take_fd(fd), path, below, depth + 1, err);
        }
        if (!S_ISREG(st.st_mode)) {
                copy_skip(copy, path, "neither a file nor a directory");
                return 0;
        }
        if (copy->files >= FILE_STREAM_FILES_MAX)
                return error_set(err, EFBIG, "more than %d files", FILE_STREAM_FILES_MAX);
        int r = copy_file(copy, fd, below, &own);
        if (r < 0 && is_final(r)) {
                *err = own;
                return error_context(err, "%s", path);
        }
        if (r < 0)
                copy_skip(copy, path, own.text);
        return 0;
}

/* Takes ownership of the descriptor. */
static int walk(struct copy *copy, int directory, const char *shown, const char *to, int depth,
                struct error *err)
{
        DIR *dir = fdopendir(directory);
        struct dirent *entry;
        int r = 0;

        if (!dir) {
                close(directory);
                return error_errno(err, errno, "%s", shown);
        }
        while (r >= 0 && (entry = readdir(dir))) {
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        r = walk_entry(copy, dirfd(dir), entry->d_name, shown, to, depth, err);
        }
        closedir(dir);
        return r;
}

/* Where the file or directory goes: into a directory that exists, or to the path itself. */
static int target_of(struct copy *copy, const char *name, char ret[FILE_PATH_MAX + 1],
                     struct error *err)
{
        const struct copy_end *end = &copy->end;
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_val *result = NULL;
        bool into = end->is_directory;

        if (!into) {
                int r = copy_list(copy, end->path, &doc, &result, err);
                if (r < 0)
                        return r;
                into = strcmp(json_text(result, "kind"), "directory") == 0;
        }
        if (into && !name)
                return error_set(err, EISDIR, "standard input needs the name of a file: %s:NAME",
                                 end->session);
        if (!into) {
                snprintf(ret, FILE_PATH_MAX + 1, "%s", end->path);
                return 0;
        }
        return copy_join(end->path, name, ret) < 0 ? error_errno(err, ENAMETOOLONG, "%s", name) : 0;
}

static int copy_one(struct copy *copy, int fd, const char *from, struct error *err)
{
        char to[FILE_PATH_MAX + 1], plain[4096];
        struct stat st;
        bool is_input = strcmp(from, "-") == 0;

        snprintf(plain, sizeof(plain), "%s", from);
        for (size_t n = strlen(plain); n > 1 && plain[n - 1] == '/'; n--)
                plain[n - 1] = '\0';
        if (fstat(fd, &st) < 0)
                return error_errno(err, errno, "%s", from);
        if (S_ISDIR(st.st_mode) && !copy->recursive)
                return error_set(err, EISDIR, "%s: is a directory; -r copies it", from);
        int r = target_of(copy, is_input ? NULL : copy_last_name(plain), to, err);
        if (r < 0)
                return r;
        if (S_ISDIR(st.st_mode))
                return walk(copy, fcntl(fd, F_DUPFD_CLOEXEC, 0), plain, to, 0, err);
        r = copy_file(copy, fd, to, err);
        return r < 0 ? error_context(err, "%s", from) : 0;
}

int copy_in(struct copy *copy, const char *from, struct error *err)
{
        _cleanup_close_ int fd = strcmp(from, "-") == 0
                                         ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                         : open(from, O_RDONLY | O_CLOEXEC | O_NOCTTY);

        if (fd < 0)
                return error_errno(err, errno, "%s", from);
        return copy_one(copy, fd, from, err);
}

/* ---- a stream ---- */

/* Returns 1 with a record, or negative errno. */
static int next_record(struct file_stream *stream, struct buffer *buffer, int fd,
                       struct file_record *record, struct error *err)
{
        int r;

        while ((r = file_stream_peek(stream, buffer, record, err)) == 0) {
                ssize_t n = buffer_read_fd(buffer, fd, COPY_PIECE);
                if (n <= 0)
                        return error_errno(err, n == 0 ? EPIPE : (int)-n, "read files");
        }
        return r;
}

int copy_in_stream(struct copy *copy, int fd, struct error *err)
{
        _cleanup_buffer_ struct buffer buffer = BUFFER_INIT(4 * FILE_STREAM_PIECE_MAX);
        struct file_stream stream = {};
        struct file_record record;
        char path[FILE_PATH_MAX + 1] = "";
        struct piece p = {.temporary = path};

        while (!stream.ended) {
                int r = next_record(&stream, &buffer, fd, &record, err);
                if (r < 0)
                        return r;
                bool is_empty = record.type == FILE_STREAM_CLOSE && p.offset == 0;
                if (record.type == FILE_STREAM_FILE) {
                        snprintf(path, sizeof(path), "%.*s", (int)record.n, record.payload);
                        p.offset = 0;
                }
                if (record.type == FILE_STREAM_DATA || is_empty) {
                        p.bytes = is_empty ? "" : record.payload;
                        p.n = record.n;
                        r = put(copy, &p, err);
                        p.offset += p.n;
                }
                if (r < 0)
                        return error_context(err, "%s", path);
                buffer_consume(&buffer, FILE_STREAM_HEADER + record.n);
        }
        return 0;
}
