/* Answers of calls. */
#include "supervisor/mcp/call/answer.h"

#include "supervisor/mcp/call/call.h"
#include "supervisor/mcp/call/result.h"

enum { LARGE_MIN = 256 * 1024 }; /* bytes that an answer is made from */

/* How many bytes are rendered, about. */
static size_t bytes_of(const struct cell_outcome *o, size_t max_output)
{
        size_t n = o->result ? yyjson_doc_get_read_size(o->result) : 0;

        for (int i = 0; i < CELL_STREAMS; i++)
                n += o->streams[i].characters < max_output || o->streams[i].has_return
                             ? o->streams[i].characters
                             : max_output;
        for (size_t i = 0; i < o->n_displays; i++)
                n += o->displays[i].data.length;
        return n;
}

void mcp_answer_start(struct mcp_answer *a, const struct background_kind *kind,
                      struct mcp_call *call, struct cell_outcome *outcome)
{
        bool large = bytes_of(outcome, call->max_output) > LARGE_MIN;

        a->call = call;
        cell_outcome_move(&a->outcome, outcome);
        buffer_init(&a->result, RESULT_MAX);
        call->answer = &a->job;
        if (large) {
                background_start(&a->job, kind, call->server->base);
                return;
        }
        kind->run(&a->job);
        kind->done(&a->job);
}

void mcp_answer_send(struct mcp_answer *a)
{
        a->call->answer = NULL;
        reply_made(&a->call->reply, a->r, &a->result);
}

void mcp_answer_done(struct mcp_answer *a)
{
        cell_outcome_done(&a->outcome);
        background_free(a->result.data, a->result.allocated);
}

void mcp_answer_refusal(struct reply *reply, const char *type, const char *message,
                        const char *session)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);

        int r = result_render_refusal(type, message, session, &result);
        reply_made(reply, r, &result);
}
