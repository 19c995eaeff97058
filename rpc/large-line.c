/* Long lines. */
#include "rpc/large-line.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "rpc/memfd-frame.h"

enum { ERROR_DATA_MAX = 1024 * 1024 };

/* Without a memfd the result is sent from its text. */
static void move_result(struct large_line *line)
{
        static char before[] = RETURN_BEFORE, after[] = RETURN_AFTER;
        struct jsonrpc_message *m = &line->message;
        const struct iovec parts[] = {
                {.iov_base = before, .iov_len = sizeof(before) - 1},
                {.iov_base = (void *)(uintptr_t)m->text, .iov_len = m->text_length},
                {.iov_base = after, .iov_len = sizeof(after) - 1},
        };

        line->memfd = memfd_frame_make(parts, ARRAY_SIZE(parts));
        for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
                line->memfd_length += parts[i].iov_len;
        if (line->memfd >= 0)
                m->text = NULL;
}

static void run(struct background_job *job)
{
        struct large_line *line = (void *)job;
        struct jsonrpc_message *m = &line->message;
        const char *text = buffer_bytes(&line->text);

        line->r = jsonrpc_parse(text, line->text.length, m, &line->err);
        if (line->r == -EBADMSG && text[0] == '{')
                line->has_id = jsonrpc_guess_id(text, line->text.length, &line->id);
        if (line->r < 0)
                return;
        if (m->kind == JSONRPC_ERROR && line->text.length > ERROR_DATA_MAX)
                m->error_data = NULL;
        if (line->wants_memfd && m->kind == JSONRPC_RESPONSE && m->text &&
            m->text_length >= MEMFD_FRAME_MIN)
                move_result(line);
        if (!m->text)
                buffer_done(&line->text);
}

static void free_line(struct background_job *job)
{
        struct large_line *line = (void *)job;

        if (line->memfd >= 0)
                close(line->memfd);
        background_free_json(line->message.doc);
        background_free(line->text.data, line->text.allocated);
        free(line);
}

static void finish(struct background_job *job)
{
        struct large_line *line = (void *)job;

        line->done(line->data, line);
        free_line(job);
}

struct large_line *large_line_start(struct event_base *base, struct buffer *text, bool wants_memfd,
                                    void (*done)(void *data, struct large_line *line), void *data)
{
        static const struct background_kind kind = {run, finish, free_line};
        struct large_line *line = calloc(1, sizeof(*line));

        if (!line) {
                buffer_done(text);
                return NULL;
        }
        line->text = *text;
        *text = (struct buffer)BUFFER_INIT(text->limit);
        line->wants_memfd = wants_memfd;
        line->memfd = -1;
        line->done = done;
        line->data = data;
        background_start(&line->job, &kind, base);
        return line;
}

struct large_line *large_line_cancel(struct large_line *line)
{
        if (line)
                background_cancel(&line->job);
        return NULL;
}
