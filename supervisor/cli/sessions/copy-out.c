/* Files of a session -> this machine. Everything that the session says of them may be forged. */
#include "supervisor/cli/sessions/copy-out.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/terminal.h"
#include "rpc/file-stream.h"

enum {
        PIECE_MAX = 1024 * 1024,
        VERSION_SIZE = 128,
        ESCAPED_MAX = 8, /* bytes, of one */
};

/* Where bytes go: to the process that writes files, or to standard output. */
struct target {
        struct file_writer *writer; /* NULL: standard output */
        const char *name;           /* of the file there */
        bool begun;
        bool is_terminal; /* standard output: what code has written is escaped */
        struct terminal_stream stream;
};

static int put(struct target *to, const struct buffer *bytes)
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
                return put(to, bytes);
        if (!to->begun)
                r = file_writer_begin(to->writer, to->name);
        to->begun = true;
        return r < 0 ? r : file_writer_piece(to->writer, buffer_bytes(bytes), bytes->length);
}

static int get(struct copy *copy, const char *path, uint64_t offset, yyjson_doc **doc,
               yyjson_val **result, struct error *err)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(4096);
        struct json_out out = {.to = &params};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "name", copy->end.session);
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
        copy_progress(copy, bytes.length);
        return eof;
}

static int copy_file(struct copy *copy, const char *path, struct target *to, struct error *err)
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
                file_writer_abort(to->writer);
        else if (to->begun)
                file_writer_end(to->writer);
        if (r > 0)
                copy->files++;
        return r < 0 ? r : 0;
}

static bool is_final(int r)
{
        return r == -EPIPE || r == -ENOENT || r == -EBUSY || r == -EFBIG || r == -ECANCELED;
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
                        copy_skip(copy, path,
                                  "a name with a leading dot is not written without --out-hidden");
                        continue;
                }
                if (copy_join(copy->end.path, path, from) < 0 ||
                    copy_join(prefix, path, name) < 0) {
                        copy_skip(copy, path, "its path is too long");
                        continue;
                }
                int r = copy_file(copy, from, &to, &own);
                if (r < 0 && is_final(r)) {
                        *err = own;
                        return r;
                }
                if (r < 0)
                        copy_skip(copy, path, own.text);
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
        const char *name = copy_last_name(to);
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
                r = copy_file(copy, copy->end.path, &to, err);
        }
        if (file_writer_close(&writer, r >= 0, NULL, &written) < 0) {
                *err = written;
                return -written.code;
        }
        return r;
}

static int check_kind(const struct copy *copy, yyjson_val *result, bool to_stdout,
                      struct error *err)
{
        const char *kind = json_text(result, "kind"), *path = copy->end.path;

        if (strcmp(kind, "absent") == 0)
                return error_set(err, ENOENT,
                                 "/workspace/%s: there is no such file in session '%s'", path,
                                 copy->end.session);
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
                copy_skip(copy, copy->end.path,
                          "has more files than are copied, or with names that cannot be shown");
}

int copy_out_all(struct copy *copy, struct file_writer *writer, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_val *result;

        int r = copy_list(copy, copy->end.path, &doc, &result, err);
        if (r < 0 || strcmp(json_text(result, "kind"), "directory") != 0)
                return r < 0 ? r : 0;
        r = copy_files(copy, writer, yyjson_obj_get(result, "files"), "", err);
        if (r >= 0)
                note_others(copy, result);
        return r;
}

int copy_out(struct copy *copy, const char *to, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct place place;
        yyjson_val *result;
        bool to_stdout = strcmp(to, "-") == 0;

        int r = copy_list(copy, copy->end.path, &doc, &result, err);
        if (r >= 0)
                r = check_kind(copy, result, to_stdout, err);
        if (r < 0)
                return r;
        if (to_stdout) {
                struct target target = {.is_terminal = isatty(STDOUT_FILENO) == 1};
                r = copy_file(copy, copy->end.path, &target, err);
                return r < 0 ? error_context(err, "/workspace/%s", copy->end.path) : 0;
        }
        bool is_directory = strcmp(json_text(result, "kind"), "directory") == 0;
        const char *last = copy_last_name(copy->end.path);
        r = find_place(to, *last || !is_directory ? last : "", is_directory, &place, err);
        if (r < 0)
                return r;
        r = copy_to_directory(copy, result, &place, err);
        if (r >= 0)
                note_others(copy, result);
        return r < 0 ? error_context(err, "%s", to) : 0;
}
