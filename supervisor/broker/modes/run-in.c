/* A stream of files -> PUT frames, one at a time. */
#include "supervisor/broker/modes/run-in.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file-path.h"
#include "rpc/file-stream.h"
#include "supervisor/session/calls/files.h"

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
