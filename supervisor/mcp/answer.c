/* Messages to the client. */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "supervisor/mcp/result.h"
#include "supervisor/mcp/server-internal.h"
#include "supervisor/mcp/tasks.h"

enum { SMALL_MAX = 1024 * 1024 };

static void send_to(struct mcp_sink *sink, const struct buffer *bytes, bool answers, int code)
{
        const struct mcp_message message = {
                .bytes = buffer_bytes(bytes),
                .n = bytes->length,
                .answers = answers,
                .code = code,
        };

        if (sink)
                sink->calls->send(sink, &message);
}

static void send_answer(const struct reply *reply, int code, const struct buffer *message)
{
        if (!reply->batch)
                send_to(reply->sink, message, true, code);
        else if (batch_add(reply->batch, message) < 0)
                log_warning("an answer of a batch was dropped: out of memory");
}

static void leave_unanswered(struct mcp_sink *sink)
{
        if (sink && sink->calls->unanswered)
                sink->calls->unanswered(sink);
}

void mcp_batch_step(struct mcp_server *server, struct batch *batch)
{
        if (!batch || --batch->waiting > 0)
                return;
        if (batch_close(batch) >= 0 && batch->out.length > 0)
                send_to(batch->sink, &batch->out, true, 0);
        else if (batch->has_requests)
                leave_unanswered(batch->sink);
        batch_free(batch);
}

void mcp_answer_nothing(struct mcp_server *server, struct reply *reply)
{
        struct batch *batch = reply->batch;

        if (reply->task)
                task_reply_done(reply);
        reply->batch = NULL;
        if (batch)
                mcp_batch_step(server, batch);
        else
                leave_unanswered(reply->sink);
}

void mcp_answer(struct mcp_server *server, struct reply *reply, const struct buffer *result)
{
        _cleanup_buffer_ struct buffer message = BUFFER_INIT(RESULT_MAX);
        _cleanup_buffer_ struct buffer whole = BUFFER_INIT(RESULT_MAX);

        if (reply->task && task_take_result(reply, result)) {
                reply_done(reply);
                return;
        }
        int r = reply->modern ? reply_append_modern(reply, result, &whole) : 0;
        if (reply->modern)
                result = &whole;
        if (r >= 0)
                r = jsonrpc_append_result(&message, reply_id(reply), buffer_bytes(result),
                                          result->length);
        if (r < 0) {
                mcp_answer_error(server, reply, JSONRPC_INTERNAL_ERROR, "the result is too large");
                return;
        }
        send_answer(reply, 0, &message);
        mcp_batch_step(server, reply->batch);
        reply_done(reply);
}

/* The id of a message that has none is left out, as of revision 2025-11-25. Earlier ones do not
 * have such errors; JSON-RPC says null. */
static yyjson_val *id_of_error(const struct reply *reply)
{
        static yyjson_val null = {.tag = YYJSON_TYPE_NULL};

        return reply->id_doc || !reply->null_id ? reply_id(reply) : &null;
}

void mcp_answer_error_data(struct mcp_server *server, struct reply *reply, int code,
                           const char *message, const struct buffer *data)
{
        _cleanup_buffer_ struct buffer out = BUFFER_INIT(SMALL_MAX);

        if (reply->task && task_take_error(reply, code, message, data)) {
                reply_done(reply);
                return;
        }
        if (jsonrpc_append_error(&out, id_of_error(reply), code, message,
                                 data ? buffer_bytes(data) : NULL, data ? data->length : 0) >= 0)
                send_answer(reply, code, &out);
        mcp_batch_step(server, reply->batch);
        reply_done(reply);
}

void mcp_answer_error(struct mcp_server *server, struct reply *reply, int code, const char *message)
{
        mcp_answer_error_data(server, reply, code, message, NULL);
}

void mcp_answer_made(struct mcp_server *server, struct reply *reply, int r,
                     const struct buffer *result)
{
        if (r >= 0)
                mcp_answer(server, reply, result);
        else
                mcp_answer_error(server, reply, JSONRPC_INTERNAL_ERROR,
                                 r == -EMSGSIZE ? "the result is too large"
                                 : r == -EBADMSG
                                         ? "the result of the code has another form than MCP's"
                                         : strerror(-r));
}

void mcp_answer_empty(struct mcp_server *server, struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(SMALL_MAX);

        int r = buffer_append(&result, "{}", 2);
        mcp_answer_made(server, reply, r, &result);
}

int mcp_send_request(struct mcp_sink *sink, int64_t id, const char *method,
                     const struct buffer *params)
{
        _cleanup_buffer_ struct buffer message = BUFFER_INIT(SMALL_MAX);

        int r = jsonrpc_append_request(&message, id, method, buffer_bytes(params), params->length);
        if (r >= 0)
                send_to(sink, &message, false, 0);
        return r;
}

void mcp_notify(struct mcp_sink *sink, const char *method, const struct buffer *params)
{
        _cleanup_buffer_ struct buffer message = BUFFER_INIT(RESULT_MAX);

        int r = jsonrpc_append_notification(&message, method, params ? buffer_bytes(params) : NULL,
                                            params ? params->length : 0);
        if (r >= 0)
                send_to(sink, &message, false, 0);
}
