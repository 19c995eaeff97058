/*
 * `cloister cp`: copies files between this machine and a session's /workspace.
 *
 * Into the session, a file is written under another name, which begins with a dot, and renamed when it is complete. Out of
 * the session, the names and bytes come from code in the sandbox: receiver.h writes them, below the directory that the
 * command names and nowhere else.
 */
#include "supervisor/cli/sessions/cp.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/exit-status.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/printable.h"
#include "policy/control-path.h"
#include "rpc/file-stream.h"

enum {
        TELL_AFTER_MS = 1000, /* progress */
        TELL_EVERY_MS = 200,
        DEPTH_MAX = 16,
        REQUEST_MAX = 2 * 1024 * 1024,
        PIECE = 512 * 1024,      /* that is sent */
        PIECE_MAX = 1024 * 1024, /* that is received */
        VERSION_SIZE = 128,
        ESCAPED_MAX = 8, /* bytes, of one */
};

/* "x", "/workspace/x" and "" -> path. Anything else is an error. */
static int take_path(const char *text, struct copy *ret, struct error *err)
{
        static const char root[] = "/workspace";
        const char *path = text;
        size_t n = sizeof(root) - 1;

        if (strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == '\0'))
                path += n + (path[n] == '/');
        n = strlen(path);
        ret->is_directory = n == 0 || path[n - 1] == '/';
        while (n > 0 && path[n - 1] == '/')
                n--;
        if (n > 0 && !file_path_valid(path, n))
                return error_set(
                        err, EINVAL,
                        "%.200s: only files below /workspace can be copied, without .. in their path",
                        text);
        snprintf(ret->path, sizeof(ret->path), "%.*s", (int)n, path);
        return 0;
}

/* Asks for the kind of a path in the session: "directory", "file", "other" or "absent". The caller owns the
 * document, which lists the files below it. */
static int list_files(struct copy *copy, const char *path, yyjson_doc **ret, yyjson_val **result,
                      struct error *err)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(4096);
        struct json_out out = {.to = &params};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "name", copy->session);
        json_out_text(&out, "path", path);
        json_out_end(&out, '}');
        return server_link_ask(&copy->link, "files/list", &params, ret, result, err);
}

/* Counts a copied piece, and prints the progress of a long copy. */
static void note_progress(struct copy *copy, size_t n)
{
        uint64_t now = clock_ms();

        copy->bytes += n;
        if (copy->begun_ms == 0)
                copy->begun_ms = now;
        if (copy->quiet || now - copy->begun_ms < TELL_AFTER_MS ||
            now - copy->told_ms < TELL_EVERY_MS)
                return;
        copy->told_ms = now;
        copy->has_told = true;
        fprintf(stderr, "\r%" PRIu64 " MiB in %" PRIu64 " s, %" PRIu64 " files\033[K",
                copy->bytes >> 20, (now - copy->begun_ms) / 1000, copy->files);
}

static void end_progress(struct copy *copy)
{
        if (copy->has_told)
                fputs("\r\033[K", stderr);
        copy->has_told = false;
}

/* One file was left out. */
static void skip(struct copy *copy, const char *path, const char *why)
{
        end_progress(copy);
        copy->failed++;
        cli_fail_text(1, "%s: %s", path, why);
}

/* directory/name, or name. Returns 0 or -ENAMETOOLONG. */
static int join(const char *directory, const char *name, char ret[FILE_PATH_MAX + 1])
{
        int n = snprintf(ret, FILE_PATH_MAX + 1, "%s%s%s", directory, *directory ? "/" : "", name);

        return n > FILE_PATH_MAX ? -ENAMETOOLONG : 0;
}

static const char *last_name(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

/* Returns whether the whole copy must end with this error. */
static bool is_final(int r)
{
        return r == -EPIPE || r == -ENOENT || r == -EBUSY || r == -EFBIG || r == -ECANCELED;
}

/* ---- files of this machine -> a session ---- */

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
        json_out_text(&out, "name", copy->session);
        json_out_text(&out, "path", p->temporary);
        json_out_int(&out, "offset", (int64_t)p->offset);
        json_out_string(&out, "data", buffer_bytes(&data), data.length);
        if (p->to)
                json_out_text(&out, "to", p->to);
        json_out_bool(&out, "discard", p->bytes == NULL);
        if (copy->label)
                json_out_text(&out, "label", copy->label);
        json_out_end(&out, '}');
        if (r < 0 || out.error < 0)
                return error_errno(err, r < 0 ? -r : -out.error, "copy");
        r = server_link_ask(&copy->link, "files/put", &params, &answer, &result, err);
        if (r >= 0 && copy->label && strcmp(json_text(result, "label"), copy->label) != 0)
                return error_set(err, EOPNOTSUPP,
                                 "the server does not know --label: restart it with this version");
        return r;
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
        _cleanup_free_ char *bytes = malloc(PIECE), *next = malloc(PIECE);
        struct piece p = {.temporary = temporary};

        if (!bytes || !next)
                return error_errno(err, ENOMEM, "copy");
        ssize_t n = fd_read_full(fd, bytes, PIECE), more = 0;
        for (;;) {
                if (n == PIECE)
                        more = fd_read_full(fd, next, PIECE);
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
                note_progress(copy, (size_t)n);
                if (more == 0)
                        return 0;
                char *swap = bytes;
                bytes = next;
                next = swap;
                n = more;
        }
}

static int send_file(struct copy *copy, int fd, const char *to, struct error *err)
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
                skip(copy, path,
                     errno == ELOOP ? "a symbolic link is not copied" : strerror(errno));
                return 0;
        }
        if (join(to, name, below) < 0) {
                skip(copy, path, "its path is too long");
                return 0;
        }
        if (S_ISDIR(st.st_mode)) {
                if (depth == DEPTH_MAX)
                        skip(copy, path, "too deep");
                return depth == DEPTH_MAX ? 0
                                          : walk(copy, take_fd(fd), path, below, depth + 1, err);
        }
        if (!S_ISREG(st.st_mode)) {
                skip(copy, path, "neither a file nor a directory");
                return 0;
        }
        if (copy->files >= FILE_STREAM_FILES_MAX)
                return error_set(err, EFBIG, "more than %d files", FILE_STREAM_FILES_MAX);
        int r = send_file(copy, fd, below, &own);
        if (r < 0 && is_final(r)) {
                *err = own;
                return error_context(err, "%s", path);
        }
        if (r < 0)
                skip(copy, path, own.text);
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
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_val *result = NULL;
        bool into = copy->is_directory;

        if (!into) {
                int r = list_files(copy, copy->path, &doc, &result, err);
                if (r < 0)
                        return r;
                into = strcmp(json_text(result, "kind"), "directory") == 0;
        }
        if (into && !name)
                return error_set(err, EISDIR, "standard input needs the name of a file: %s:NAME",
                                 copy->session);
        if (!into) {
                snprintf(ret, FILE_PATH_MAX + 1, "%s", copy->path);
                return 0;
        }
        return join(copy->path, name, ret) < 0 ? error_errno(err, ENAMETOOLONG, "%s", name) : 0;
}

/* from: a path of this machine, or "-". An error is one for the whole copy. */
static int copy_in(struct copy *copy, const char *from, struct error *err)
{
        char to[FILE_PATH_MAX + 1], plain[4096];
        struct stat st;
        bool is_input = strcmp(from, "-") == 0;
        _cleanup_close_ int fd = is_input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                          : open(from, O_RDONLY | O_CLOEXEC | O_NOCTTY);

        if (fd < 0)
                return error_errno(err, errno, "%s", from);
        snprintf(plain, sizeof(plain), "%s", from);
        for (size_t n = strlen(plain); n > 1 && plain[n - 1] == '/'; n--)
                plain[n - 1] = '\0';
        if (fstat(fd, &st) < 0)
                return error_errno(err, errno, "%s", from);
        if (S_ISDIR(st.st_mode) && !copy->recursive)
                return error_set(err, EISDIR, "%s: is a directory; -r copies it", from);
        int r = target_of(copy, is_input ? NULL : last_name(plain), to, err);
        if (r < 0)
                return r;
        if (S_ISDIR(st.st_mode))
                return walk(copy, fcntl(fd, F_DUPFD_CLOEXEC, 0), plain, to, 0, err);
        r = send_file(copy, fd, to, err);
        return r < 0 ? error_context(err, "%s", from) : 0;
}

/* Returns 1 with a record, or negative errno. */
static int next_record(struct file_stream *stream, struct buffer *buffer, int fd,
                       struct file_record *record, struct error *err)
{
        int r;

        while ((r = file_stream_peek(stream, buffer, record, err)) == 0) {
                ssize_t n = buffer_read_fd(buffer, fd, PIECE);
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

/* ---- files of a session -> this machine: everything that the session says of them may be forged ---- */

/* Where bytes go: to the process that writes files, or to standard output. */
struct target {
        struct file_writer *writer; /* NULL: standard output */
        const char *name;           /* of the file there */
        bool begun;
        bool is_terminal; /* standard output: what code has written is escaped */
        struct terminal_stream stream;
};

static int print(struct target *to, const struct buffer *bytes)
{
        _cleanup_buffer_ struct buffer escaped = BUFFER_INIT(ESCAPED_MAX * PIECE_MAX);

        if (!to->is_terminal)
                return fd_write_all(STDOUT_FILENO, buffer_bytes(bytes), bytes->length);
        int r = terminal_escape(&to->stream, buffer_bytes(bytes), bytes->length, &escaped);
        return r < 0 ? r : fd_write_all(STDOUT_FILENO, buffer_bytes(&escaped), escaped.length);
}

static int give(struct target *to, const struct buffer *bytes)
{
        int r = 0;

        if (!to->writer)
                return print(to, bytes);
        if (!to->begun)
                r = file_writer_put(to->writer, FILE_STREAM_FILE, to->name, strlen(to->name));
        to->begun = true;
        return r < 0 ? r : file_writer_piece(to->writer, buffer_bytes(bytes), bytes->length);
}

static int get(struct copy *copy, const char *path, uint64_t offset, yyjson_doc **doc,
               yyjson_val **result, struct error *err)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(4096);
        struct json_out out = {.to = &params};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "name", copy->session);
        json_out_text(&out, "path", path);
        json_out_int(&out, "offset", (int64_t)offset);
        json_out_end(&out, '}');
        return server_link_ask(&copy->link, "files/get", &params, doc, result, err);
}

/* Returns 1 at the end of the file, 0 before, -ECANCELED: the target takes no more. */
static int take_piece(struct copy *copy, yyjson_val *result, struct target *to, uint64_t *offset,
                      char version[VERSION_SIZE], struct error *err)
{
        _cleanup_buffer_ struct buffer bytes = BUFFER_INIT(PIECE_MAX);
        const char *now = json_text(result, "version");
        size_t n = 0;
        const char *data = json_string(result, "data", &n);
        bool eof = yyjson_is_true(yyjson_obj_get(result, "eof"));

        if (!data || base64_decode(&bytes, data, n) < 0 || (bytes.length == 0 && !eof))
                return error_set(err, EBADMSG, "the server's answer cannot be read");
        if (*offset == 0)
                snprintf(version, VERSION_SIZE, "%s", now);
        if (strncmp(version, now, VERSION_SIZE - 1) != 0)
                return error_set(err, EAGAIN, "it changed while it was read");
        if (copy->bytes + bytes.length > FILE_STREAM_BYTES_MAX)
                return error_set(err, EFBIG, "more than %llu GiB", FILE_STREAM_BYTES_MAX >> 30);
        int r = give(to, &bytes);
        if (r < 0)
                return error_errno(err, ECANCELED, "write");
        *offset += bytes.length;
        note_progress(copy, bytes.length);
        return eof;
}

static int fetch_file(struct copy *copy, const char *path, struct target *to, struct error *err)
{
        char version[VERSION_SIZE] = "";
        uint64_t offset = 0;
        int r = 0;

        while (r == 0) {
                _cleanup_json_ yyjson_doc *doc = NULL;
                yyjson_val *result = NULL;
                r = get(copy, path, offset, &doc, &result, err);
                if (r >= 0)
                        r = take_piece(copy, result, to, &offset, version, err);
        }
        if (to->begun && r < 0)
                file_writer_put(to->writer, FILE_STREAM_ABORT, NULL, 0);
        else if (to->begun)
                file_writer_put(to->writer, FILE_STREAM_CLOSE, NULL, 0);
        if (r > 0)
                copy->files++;
        return r < 0 ? r : 0;
}

/* The files of a directory, which come from the session: names are checked here and by the receiver. */
static int copy_files(struct copy *copy, struct file_writer *writer, yyjson_val *files,
                      const char *prefix, struct error *err)
{
        yyjson_val *file;
        size_t i, n;

        yyjson_arr_foreach (files, i, n, file) {
                char from[FILE_PATH_MAX + 1], name[FILE_PATH_MAX + 1];
                size_t length = 0;
                const char *path = json_string(file, "path", &length);
                struct target to = {.writer = writer, .name = name};
                struct error own = {};
                if (!path || !file_path_valid(path, length))
                        continue;
                if (!copy->hidden && file_path_hidden(path, length)) {
                        skip(copy, path,
                             "a name with a leading dot is not written without --out-hidden");
                        continue;
                }
                if (join(copy->path, path, from) < 0 || join(prefix, path, name) < 0) {
                        skip(copy, path, "its path is too long");
                        continue;
                }
                int r = fetch_file(copy, from, &to, &own);
                if (r < 0 && is_final(r)) {
                        *err = own;
                        return r;
                }
                if (r < 0)
                        skip(copy, path, own.text);
        }
        return 0;
}

/* Where the copy goes: a directory that exists, or its parent and a new name. */
struct place {
        char directory[PATH_MAX];
        char name[256]; /* "": the directory itself */
};

static int find_place(const char *to, const char *last, bool is_directory, struct place *ret,
                      struct error *err)
{
        struct stat st;
        size_t n = strlen(to);
        bool exists = stat(to, &st) == 0 && S_ISDIR(st.st_mode);

        if (n >= sizeof(ret->directory))
                return error_errno(err, ENAMETOOLONG, "%.100s", to);
        snprintf(ret->directory, sizeof(ret->directory), "%s", to);
        snprintf(ret->name, sizeof(ret->name), "%s", exists ? last : "");
        if (exists || is_directory)
                return 0; /* a directory is created */
        const char *name = last_name(to);
        if (*name == '\0' || strlen(name) >= sizeof(ret->name))
                return error_set(err, ENOENT, "%s: no such directory", to);
        snprintf(ret->name, sizeof(ret->name), "%s", name);
        if (name == to)
                snprintf(ret->directory, sizeof(ret->directory), ".");
        else
                ret->directory[name - to] = '\0';
        return stat(ret->directory, &st) < 0 ? error_errno(err, errno, "%s", ret->directory) : 0;
}

static int copy_to_directory(struct copy *copy, yyjson_val *result, const struct place *place,
                             struct error *err)
{
        struct file_writer writer;
        struct error written = {};

        /* The name of one file is the person's choice. */
        bool hidden = copy->hidden || !copy->recursive ||
                      strcmp(json_text(result, "kind"), "file") == 0;
        int r = file_writer_open(&writer, place->directory, hidden, err);
        if (r < 0)
                return r;
        if (strcmp(json_text(result, "kind"), "directory") == 0) {
                r = copy_files(copy, &writer, yyjson_obj_get(result, "files"), place->name, err);
        } else {
                struct target to = {.writer = &writer, .name = place->name};
                r = fetch_file(copy, copy->path, &to, err);
        }
        if (file_writer_close(&writer, r >= 0, &written) < 0) {
                *err = written;
                return -written.code;
        }
        return r;
}

static int check_kind(const struct copy *copy, yyjson_val *result, bool to_stdout,
                      struct error *err)
{
        const char *kind = json_text(result, "kind"), *path = copy->path;

        if (strcmp(kind, "absent") == 0)
                return error_set(err, ENOENT,
                                 "/workspace/%s: there is no such file in session '%s'", path,
                                 copy->session);
        if (strcmp(kind, "other") == 0)
                return error_set(
                        err, EINVAL,
                        "/workspace/%s: neither a file nor a directory; links are not followed",
                        path);
        if (strcmp(kind, "directory") == 0 && (!copy->recursive || to_stdout))
                return error_set(err, EISDIR, "/workspace/%s: is a directory%s", path,
                                 to_stdout ? "" : "; -r copies it");
        return 0;
}

static void note_others(struct copy *copy, yyjson_val *result)
{
        if (json_number(result, "total") >
            (int64_t)yyjson_arr_size(yyjson_obj_get(result, "files")))
                skip(copy, copy->path,
                     "has more files than are copied, or with names that cannot be shown");
}

int copy_out_all(struct copy *copy, struct file_writer *writer, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_val *result;

        int r = list_files(copy, copy->path, &doc, &result, err);
        if (r < 0 || strcmp(json_text(result, "kind"), "directory") != 0)
                return r < 0 ? r : 0;
        r = copy_files(copy, writer, yyjson_obj_get(result, "files"), "", err);
        if (r >= 0)
                note_others(copy, result);
        return r;
}

/* to: a path of this machine, or "-". An error is one for the whole copy. */
static int copy_out(struct copy *copy, const char *to, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct place place;
        yyjson_val *result;
        bool to_stdout = strcmp(to, "-") == 0;

        int r = list_files(copy, copy->path, &doc, &result, err);
        if (r >= 0)
                r = check_kind(copy, result, to_stdout, err);
        if (r < 0)
                return r;
        if (to_stdout) {
                struct target target = {.is_terminal = isatty(STDOUT_FILENO) == 1};
                r = fetch_file(copy, copy->path, &target, err);
                return r < 0 ? error_context(err, "/workspace/%s", copy->path) : 0;
        }
        bool is_directory = strcmp(json_text(result, "kind"), "directory") == 0;
        const char *last = last_name(copy->path);
        r = find_place(to, *last || !is_directory ? last : "", is_directory, &place, err);
        if (r < 0)
                return r;
        r = copy_to_directory(copy, result, &place, err);
        if (r >= 0)
                note_others(copy, result);
        return r < 0 ? error_context(err, "%s", to) : 0;
}

/* ---- the command ---- */

/* SESSION:PATH: the longest part before a colon that is the name of a live session. A path with a slash before the first
 * colon is a local one, as with scp. */
static bool is_remote(const char *word)
{
        const char *colon = strchr(word, ':'), *slash = strchr(word, '/');

        return colon && (!slash || colon < slash);
}

static int split(const char *word, const struct servers *servers, struct copy *ret,
                 struct error *err)
{
        const struct server *server = NULL;
        char name[sizeof(ret->session)];

        for (const char *colon = word + strlen(word); colon > word; colon--) {
                size_t n = (size_t)(colon - word);
                if (*colon != ':' || n >= sizeof(name))
                        continue;
                snprintf(name, sizeof(name), "%.*s", (int)n, word);
                *err = (struct error){};
                if (!session_name_is_plain(name))
                        continue;
                int r = servers_find_session(servers, name, &server, err);
                if (r < 0 && r != -ENOENT)
                        return r;
                if (r < 0)
                        continue;
                snprintf(ret->session, sizeof(ret->session), "%s", name);
                r = take_path(colon + 1, ret, err);
                return r < 0 ? r : server_link_open(&ret->link, server->path, err);
        }
        size_t first = strcspn(word, ":");
        return error_set(err, ENOENT, "no live session is called '%.*s' (see 'cloister sessions')",
                         (int)(first < 100 ? first : 100), word);
}

static int find(const char *word, const char *only, struct copy *ret, struct error *err)
{
        struct servers servers = {};

        servers_find(only, &servers);
        servers_ask(&servers);
        int r = split(word, &servers, ret, err);
        servers_done(&servers);
        return r;
}

int cli_cp(const struct options *o, const char *const *words, size_t n)
{
        struct copy copy = {.recursive = o->recursive,
                            .hidden = o->out_hidden,
                            .label = o->label,
                            .quiet = o->quiet || isatty(STDERR_FILENO) != 1};
        struct error error = {};

        if (n != 2 || is_remote(words[0]) == is_remote(words[1]))
                return cli_fail_text(
                        2,
                        "cp takes two paths, and one of them is SESSION:PATH (see 'cloister cp --help')");
        bool out = is_remote(words[0]);
        if (out && o->label)
                return cli_fail_text(2, "--label is for files that are copied into a session");
        int r = find(words[!out], o->server, &copy, &error);
        if (r < 0)
                return cli_fail(EXIT_CLOISTER, &error);
        r = out ? copy_out(&copy, words[1], &error) : copy_in(&copy, words[0], &error);
        server_link_close(&copy.link);
        end_progress(&copy);
        if (r < 0)
                return cli_fail(EXIT_CLOISTER, &error);
        return copy.failed > 0 ? 1 : 0;
}
