/*
 * Files into and out of a sandbox.
 *
 * Into it: a stream of files becomes PUT frames, one at a time. Out of it: one piece at a time: FETCH, DATA, a record to the receiver. While the receiver does not read,
 * nothing is requested. A file that cannot be read completely is aborted; the first one is reported
 * at the end.
 */
#include "supervisor/broker/modes/run-files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/base64.h"
#include "base/file-path.h"
#include "base/log.h"
#include "rpc/file-stream.h"
#include "supervisor/broker/writer.h"
#include "supervisor/session/calls/files.h"

/* ---- --in ---- */

enum { READ_AT_ONCE = 256 * 1024 };

struct run_in {
        struct session *session;
        int fd;
        struct file_stream stream;
        struct buffer buffer;
        char path[FILE_PATH_MAX + 1];
        uint64_t offset;
        void (*done)(void *data, const struct error *error);
        void *data;
};

/* Returns 1 with a record, or negative errno. */
static int next_record(struct run_in *in, struct file_record *record, struct error *err)
{
        int r;

        while ((r = file_stream_peek(&in->stream, &in->buffer, record, err)) == 0) {
                ssize_t n = buffer_read_fd(&in->buffer, in->fd, READ_AT_ONCE);
                if (n <= 0)
                        return error_errno(err, n == 0 ? EPIPE : (int)-n, "files of --in");
        }
        return r;
}

static void on_put(void *data, const struct file_answer *answer, const struct error *error);

static int put(struct run_in *in, const void *bytes, size_t n, struct error *err)
{
        const struct file_put piece = {
                .path = in->path, .offset = in->offset, .bytes = bytes, .n = n};

        return files_put(in->session, &piece, on_put, in, err);
}

/* Returns 1 if a PUT was sent, 0 if the record needs none. */
static int take(struct run_in *in, const struct file_record *record, struct error *err)
{
        int r = 0;

        switch (record->type) {
        case FILE_STREAM_FILE:
                snprintf(in->path, sizeof(in->path), "%.*s", (int)record->n, record->payload);
                in->offset = 0;
                return 0;
        case FILE_STREAM_DATA:
                r = put(in, record->payload, record->n, err);
                in->offset += record->n;
                return r < 0 ? r : 1;
        case FILE_STREAM_CLOSE:
                if (in->offset > 0)
                        return 0;
                r = put(in, "", 0, err); /* an empty file */
                return r < 0 ? r : 1;
        default:
                return 0;
        }
}

/* Handles records until a PUT is pending (returns 1) or the stream has ended (0). */
static int advance(struct run_in *in, struct error *err)
{
        struct file_record record;
        int r = 0;

        while (r == 0 && !in->stream.ended) {
                r = next_record(in, &record, err);
                if (r > 0)
                        r = take(in, &record, err);
                if (r >= 0)
                        buffer_consume(&in->buffer, FILE_STREAM_HEADER + record.n);
        }
        return r;
}

static void on_put(void *data, const struct file_answer *answer, const struct error *error)
{
        struct run_in *in = data;
        struct error err = {};

        if (error) {
                in->done(in->data, error);
                return;
        }
        int r = advance(in, &err);
        if (r <= 0)
                in->done(in->data, r < 0 ? &err : NULL);
}

int run_in_start(struct run_in **ret, struct session *session, int fd,
                 void (*done)(void *data, const struct error *error), void *data, struct error *err)
{
        struct run_in *in = calloc(1, sizeof(*in));

        if (!in)
                return error_errno(err, ENOMEM, "--in");
        *in = (struct run_in){
                .session = session,
                .fd = fd,
                .buffer = BUFFER_INIT(FILE_STREAM_HEADER + FILE_STREAM_PIECE_MAX + READ_AT_ONCE),
                .done = done,
                .data = data,
        };
        *ret = in;
        int r = advance(in, err);
        return r == 0 ? error_set(err, EINVAL, "--in without files") : (r < 0 ? r : 0);
}

struct run_in *run_in_free(struct run_in *in)
{
        if (!in)
                return NULL;
        buffer_done(&in->buffer);
        free(in);
        return NULL;
}

/* ---- --out ---- */

struct run_out {
        struct session *session;
        struct writer writer;
        int fd;
        bool hidden;
        struct event *answered;
        struct file_stream_reply reply;
        size_t n_reply;

        struct cell_file *files;
        size_t n_files, at;
        char path[CELL_PATH_MAX + 8]; /* of the file that is read, from /workspace on */
        char version[FILES_VERSION_MAX + 1];
        uint64_t offset;
        bool open;    /* its FILE record was sent */
        bool waiting; /* for the receiver to read */

        struct error first_error;
        bool finished;
        void (*done)(void *data, const struct error *error);
        void *data;
};

static void note(struct run_out *out, const char *text)
{
        if (!error_is_set(&out->first_error))
                error_set(&out->first_error, EIO, "%s", text);
}

static void finish(struct run_out *out)
{
        if (out->finished)
                return;
        out->finished = true;
        event_del(out->answered);
        out->done(out->data, error_is_set(&out->first_error) ? &out->first_error : NULL);
}

static void give(struct run_out *out, enum file_stream_type type, const void *payload, size_t n)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(FILE_STREAM_HEADER + FILE_STREAM_PIECE_MAX);

        if (file_stream_append(&b, type, payload, n) < 0)
                note(out, "out of memory");
        else
                writer_write(&out->writer, buffer_bytes(&b), b.length);
}

void run_out_display(struct run_out *out, const struct cell_display *display, size_t index)
{
        _cleanup_buffer_ struct buffer bytes = BUFFER_INIT(CELL_DISPLAY_BYTES_MAX);
        const struct buffer *from = &display->data;
        char name[64];

        if (display->is_picture && from->length == 0)
                return;
        if (!display->is_text) {
                if (base64_decode(&bytes, buffer_bytes(from), from->length) < 0) {
                        note(out, "out of memory");
                        return;
                }
                from = &bytes;
        }
        int n = snprintf(name, sizeof(name), "display-%zu.%s", index + 1,
                         mime_extension(display->mime_type));
        give(out, FILE_STREAM_FILE, name, (size_t)n);
        for (size_t at = 0; at < from->length; at += FILE_STREAM_PIECE_MAX) {
                size_t left = from->length - at;
                give(out, FILE_STREAM_DATA, buffer_bytes(from) + at,
                     left < FILE_STREAM_PIECE_MAX ? left : FILE_STREAM_PIECE_MAX);
        }
        give(out, FILE_STREAM_CLOSE, NULL, 0);
        log_info("--out: %s", name);
}

static void on_piece(void *data, const struct file_answer *answer, const struct error *error);

static void skip_file(struct run_out *out, const char *why)
{
        char text[sizeof(out->path) + 256];

        snprintf(text, sizeof(text), "%s", why);
        note(out, text);
        if (out->open)
                give(out, FILE_STREAM_ABORT, NULL, 0);
        out->open = false;
        out->at++;
}

/* Requests the next piece, of this file or the next one. */
static void go_on(struct run_out *out)
{
        struct error err = {};

        while (!out->finished && out->at < out->n_files) {
                if (writer_is_full(&out->writer)) {
                        out->waiting = true;
                        return;
                }
                if (!out->open) {
                        out->offset = 0;
                        snprintf(out->path, sizeof(out->path), "out/%s", out->files[out->at].path);
                }
                if (files_fetch(out->session, out->path, out->offset, FILES_CHUNK, on_piece, out,
                                &err) >= 0)
                        return;
                skip_file(out, err.text);
        }
        if (!out->finished)
                give(out, FILE_STREAM_END, NULL, 0);
}

static void take_piece(struct run_out *out, const struct file_answer *answer)
{
        const char *name = out->files[out->at].path;

        if (!out->open) {
                give(out, FILE_STREAM_FILE, name, strlen(name));
                memcpy(out->version, answer->version, sizeof(out->version));
                out->open = true;
        }
        if (strcmp(out->version, answer->version) != 0) {
                skip_file(out, "a file in /workspace/out changed while it was read");
                return;
        }
        if (answer->data.length > 0)
                give(out, FILE_STREAM_DATA, buffer_bytes(&answer->data), answer->data.length);
        out->offset += answer->data.length;
        if (!answer->eof)
                return;
        give(out, FILE_STREAM_CLOSE, NULL, 0);
        log_info("--out: %s, %llu bytes", name, (unsigned long long)out->offset);
        out->open = false;
        out->at++;
}

static void on_piece(void *data, const struct file_answer *answer, const struct error *error)
{
        struct run_out *out = data;

        if (out->finished)
                return;
        if (error)
                skip_file(out, error->text);
        else
                take_piece(out, answer);
        go_on(out);
}

/* Copies the list without the files that are not wanted, and notes that there are some. */
static void take_list(struct run_out *out, const struct file_answer *answer)
{
        const char *first = NULL;
        char text[256];
        size_t left_out = 0;

        out->files = answer->n_files > 0 ? calloc(answer->n_files, sizeof(*out->files)) : NULL;
        for (size_t i = 0; out->files && i < answer->n_files; i++) {
                const struct cell_file *file = &answer->files[i];
                if (out->hidden || !file_path_hidden(file->path, strlen(file->path))) {
                        out->files[out->n_files++] = *file;
                        continue;
                }
                first = first ? first : file->path;
                left_out++;
        }
        if (!first)
                return;
        snprintf(text, sizeof(text),
                 "%.100s%s: a name with a leading dot is not written without --out-hidden", first,
                 left_out > 1 ? " and others" : "");
        note(out, text);
}

static void on_list(void *data, const struct file_answer *answer, const struct error *error)
{
        struct run_out *out = data;
        char text[128];

        if (out->finished)
                return;
        if (error)
                note(out, error->text);
        else
                take_list(out, answer);
        if (!error && answer->files_total > answer->n_files) {
                snprintf(
                        text, sizeof(text),
                        "%zu or more files in /workspace/out were left out: beyond the first %d, or their names cannot be shown",
                        answer->files_total - answer->n_files, FILES_LIST_MAX);
                note(out, text);
        }
        go_on(out);
}

int run_out_collect(struct run_out *out, struct session *session)
{
        struct error err = {};

        out->session = session;
        int r = files_list(session, NULL, on_list, out, &err);
        if (r >= 0)
                return 0;
        if (r != -ENOENT)
                note(out, err.text);
        go_on(out);
        return r;
}

static void on_answered(evutil_socket_t fd, short what, void *data)
{
        struct run_out *out = data;
        char *to = (char *)&out->reply;

        ssize_t n = recv(fd, to + out->n_reply, sizeof(out->reply) - out->n_reply, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0) {
                note(out, "the process that writes the files has ended");
                finish(out);
                return;
        }
        out->n_reply += (size_t)n;
        if (out->n_reply < sizeof(out->reply))
                return;
        out->reply.text[sizeof(out->reply.text) - 1] = '\0';
        if (out->reply.code)
                note(out, out->reply.text);
        finish(out);
}

static void on_drained(void *data)
{
        struct run_out *out = data;

        if (!out->waiting || writer_is_full(&out->writer))
                return;
        out->waiting = false;
        go_on(out);
}

/* The reason, or the end of it, is there to be read. */
static void on_broken(void *data, int code)
{
}

int run_out_new(struct run_out **ret, struct event_base *base, int fd, bool hidden,
                void (*done)(void *data, const struct error *error), void *data, struct error *err)
{
        struct run_out *out = calloc(1, sizeof(*out));
        const struct writer_owner owner = {out, on_drained, on_broken};

        if (!out)
                return error_errno(err, ENOMEM, "--out");
        out->fd = fd;
        out->hidden = hidden;
        out->done = done;
        out->data = data;
        out->answered = event_new(base, fd, EV_READ | EV_PERSIST, on_answered, out);
        int r = out->answered ? writer_open(&out->writer, base, fd, &owner, err)
                              : error_errno(err, ENOMEM, "--out");
        if (r < 0) {
                run_out_free(out);
                return r;
        }
        event_add(out->answered, NULL);
        *ret = out;
        return 0;
}

struct run_out *run_out_free(struct run_out *out)
{
        if (!out)
                return NULL;
        writer_close(&out->writer);
        if (out->answered)
                event_free(out->answered);
        free(out->files);
        free(out);
        return NULL;
}
