/* Answers to requests. */
#include "supervisor/mcp/reply.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json-out.h"
#include "base/log.h"
#include "cloister-config.h"
#include "rpc/jsonrpc.h"
#include "supervisor/mcp/request.h"
#include "supervisor/service/phase.h"

enum { SMALL_MAX = 1024 * 1024 };

enum { INFO_MAX = 2048 };

/* A server has one name for all its clients. */
static char server_info[INFO_MAX];

const char *mcp_server_info(void)
{
        static const char own[] =
                "{\"name\":\"cloister\",\"title\":\"Cloister\",\"version\":\"" CLOISTER_VERSION
                "\"}";

        return *server_info ? server_info : own;
}

void mcp_server_info_set(const char *name)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(INFO_MAX - 1);
        struct json_out out = {.to = &text};

        server_info[0] = '\0';
        if (!name)
                return;
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "name", name);
        json_out_text(&out, "version", CLOISTER_VERSION);
        json_out_end(&out, '}');
        if (out.error >= 0)
                snprintf(server_info, sizeof(server_info), "%.*s", (int)text.length,
                         buffer_bytes(&text));
}

/* The count begins at 1, so that the batch is not sent before its last element was read. */
struct batch *batch_new(struct mcp_sink *sink)
{
        struct batch *batch = calloc(1, sizeof(*batch));

        if (batch) {
                batch->sink = mcp_sink_ref(sink);
                batch->waiting = 1;
                buffer_init(&batch->out, RESULT_MAX);
        }
        return batch;
}

void batch_expect(struct batch *batch)
{
        batch->waiting++;
        batch->has_requests = true;
}

/* Adds an answer, with its newline, to the array. */
static void batch_add(struct batch *batch, const struct buffer *message)
{
        int r = buffer_append(&batch->out, batch->out.length == 0 ? "[" : ",", 1);

        if (r >= 0)
                r = buffer_append(&batch->out, buffer_bytes(message), message->length - 1);
        if (r < 0)
                log_warning("an answer of a batch was dropped: out of memory");
}

void batch_step(struct batch *batch)
{
        if (!batch || --batch->waiting > 0)
                return;
        if (batch->out.length > 0 && buffer_append(&batch->out, "]\n", 2) >= 0)
                mcp_sink_send(batch->sink, &batch->out, true, 0);
        else if (batch->has_requests)
                mcp_sink_unanswered(batch->sink);
        buffer_done(&batch->out);
        mcp_sink_unref(batch->sink);
        free(batch);
}

const struct caching caching_lists = {.ttl_ms = 5000, .scope = "private"};
const struct caching caching_none = {.ttl_ms = 0, .scope = "private"};

int reply_init(struct reply *reply, yyjson_val *id, struct mcp_sink *sink, struct batch *batch)
{
        *reply = (struct reply){.sink = mcp_sink_ref(sink), .batch = batch};
        return jsonrpc_id_copy(id, RESULT_MAX, &reply->id_doc);
}

static void leave_keeper(struct reply *reply)
{
        if (reply->task)
                reply->keeper->done(reply);
}

void reply_done(struct reply *reply)
{
        leave_keeper(reply);
        yyjson_doc_free(reply->id_doc);
        mcp_sink_unref(reply->sink);
        *reply = (struct reply){};
}

/* Appends a result object with the members of the modern era: resultType, _meta and those for caching. */
static int append_modern(const struct reply *reply, const struct buffer *result, struct buffer *to)
{
        struct json_out out = {.to = to};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "resultType",
                      reply->is_task          ? "task"
                      : reply->input_required ? "input_required"
                                              : "complete");
        json_out_begin(&out, "_meta", '{');
        json_out_raw(&out, META_SERVER, mcp_server_info(), strlen(mcp_server_info()));
        if (reply->subscription)
                json_out_value(&out, META_SUBSCRIPTION, reply_id(reply));
        json_out_end(&out, '}');
        if (reply->caching && !reply->input_required) {
                json_out_int(&out, "ttlMs", reply->caching->ttl_ms);
                json_out_text(&out, "cacheScope", reply->caching->scope);
        }
        int r = out.error;
        if (r >= 0 && result->length > 2)
                r = buffer_append(to, ",", 1);
        return r < 0 ? r : buffer_append(to, buffer_bytes(result) + 1, result->length - 1);
}

static void send_answer(const struct reply *reply, int code, const struct buffer *message)
{
        if (reply->batch)
                batch_add(reply->batch, message);
        else
                mcp_sink_send(reply->sink, message, true, code);
}

void reply_nothing(struct reply *reply)
{
        struct batch *batch = reply->batch;

        leave_keeper(reply);
        operation_cancel(&reply->operation);
        reply->batch = NULL;
        if (batch)
                batch_step(batch);
        else
                mcp_sink_unanswered(reply->sink);
}

void reply_result(struct reply *reply, const struct buffer *result)
{
        _cleanup_buffer_ struct buffer message = BUFFER_INIT(RESULT_MAX);
        _cleanup_buffer_ struct buffer whole = BUFFER_INIT(RESULT_MAX);

        if (reply->task && reply->keeper->result(reply, result)) {
                reply_done(reply);
                return;
        }
        const struct buffer *bare = result;
        int r = reply->modern ? append_modern(reply, result, &whole) : 0;
        if (reply->modern)
                result = &whole;
        if (r >= 0)
                r = jsonrpc_append_result(&message, reply_id(reply), buffer_bytes(result),
                                          result->length);
        if (r < 0) {
                reply_error(reply, JSONRPC_INTERNAL_ERROR, "the result is too large");
                return;
        }
        operation_end(&reply->operation, 0, bare);
        send_answer(reply, 0, &message);
        batch_step(reply->batch);
        reply_done(reply);
}

/* The id of a message that has none is left out, as of revision 2025-11-25. Earlier ones do not
 * have such errors; JSON-RPC says null. */
static yyjson_val *id_of_error(const struct reply *reply)
{
        static yyjson_val null = {.tag = YYJSON_TYPE_NULL};

        return reply->id_doc || !reply->null_id ? reply_id(reply) : &null;
}

/* refusal: or NULL. */
static void answer_error(struct reply *reply, int code, const char *message,
                         const struct buffer *data, const struct service_refusal *refusal)
{
        _cleanup_buffer_ struct buffer out = BUFFER_INIT(SMALL_MAX);

        if (reply->task && reply->keeper->error(reply, code, message, data)) {
                reply_done(reply);
                return;
        }
        operation_end(&reply->operation, code, NULL);
        int r = jsonrpc_append_error(&out, id_of_error(reply), code, message,
                                     data ? buffer_bytes(data) : NULL, data ? data->length : 0);
        if (r >= 0 && refusal && !reply->batch)
                mcp_sink_refuse(reply->sink, &out, refusal);
        else if (r >= 0)
                send_answer(reply, code, &out);
        batch_step(reply->batch);
        reply_done(reply);
}

void reply_error_data(struct reply *reply, int code, const char *message, const struct buffer *data)
{
        answer_error(reply, code, message, data, NULL);
}

bool reply_refuse(struct reply *reply, const struct service_refusal *refusal)
{
        _cleanup_buffer_ struct buffer data = BUFFER_INIT(SMALL_MAX);

        if (!reply->sink || !reply->sink->calls->has_refusals ||
            service_refusal_append(refusal, &data) < 0)
                return false;
        answer_error(reply, SERVICE_REFUSED, refusal->text, &data, refusal);
        return true;
}

void reply_error(struct reply *reply, int code, const char *message)
{
        reply_error_data(reply, code, message, NULL);
}

void reply_made(struct reply *reply, int r, const struct buffer *result)
{
        if (r >= 0)
                reply_result(reply, result);
        else
                reply_error(reply, JSONRPC_INTERNAL_ERROR,
                            r == -EMSGSIZE  ? "the result is too large"
                            : r == -EBADMSG ? "the result of the code has another form than MCP's"
                                            : strerror(-r));
}

void reply_empty(struct reply *reply)
{
        char empty[] = "{}";

        reply_result(reply, &(struct buffer){.data = empty, .length = 2});
}
