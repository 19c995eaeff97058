/* Ids that outlive their requests, and batches. */
#include "supervisor/mcp/reply.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/jsonrpc.h"
#include "supervisor/mcp/request.h"
#include "supervisor/mcp/result.h"
#include "supervisor/mcp/server.h"
#include "supervisor/mcp/tasks.h"

int reply_init(struct reply *reply, yyjson_val *id, struct mcp_sink *sink, struct batch *batch)
{
        *reply = (struct reply){.sink = mcp_sink_ref(sink), .batch = batch};
        return jsonrpc_id_copy(id, RESULT_MAX, &reply->id_doc);
}

void reply_done(struct reply *reply)
{
        if (reply->task)
                task_reply_done(reply);
        yyjson_doc_free(reply->id_doc);
        mcp_sink_unref(reply->sink);
        *reply = (struct reply){};
}

int reply_append_modern(const struct reply *reply, const struct buffer *result, struct buffer *to)
{
        const char *rest = buffer_bytes(result);
        int r;

        r = buffer_printf(to, "{\"resultType\":\"%s\",\"_meta\":{\"%s\":%s",
                          reply->is_task          ? "task"
                          : reply->input_required ? "input_required"
                                                  : "complete",
                          META_SERVER, mcp_server_info);
        if (r >= 0 && reply->subscription) {
                r = buffer_printf(to, ",\"%s\":", META_SUBSCRIPTION);
                if (r >= 0)
                        r = json_append(to, reply_id(reply));
        }
        if (r >= 0)
                r = buffer_append(to, "}", 1);
        if (r >= 0 && reply->caching && !reply->input_required)
                r = buffer_printf(to, ",\"ttlMs\":%u,\"cacheScope\":\"%s\"", reply->caching->ttl_ms,
                                  reply->caching->scope);
        if (r >= 0 && result->length > 2)
                r = buffer_append(to, ",", 1);
        return r < 0 ? r : buffer_append(to, rest + 1, result->length - 1);
}

struct batch *batch_new(struct mcp_sink *sink)
{
        struct batch *batch = calloc(1, sizeof(*batch));

        if (batch) {
                batch->sink = mcp_sink_ref(sink);
                buffer_init(&batch->out, RESULT_MAX);
        }
        return batch;
}

struct batch *batch_free(struct batch *batch)
{
        if (batch) {
                buffer_done(&batch->out);
                mcp_sink_unref(batch->sink);
        }
        free(batch);
        return NULL;
}

int batch_add(struct batch *batch, const struct buffer *message)
{
        int r = buffer_append(&batch->out, batch->out.length == 0 ? "[" : ",", 1);

        return r < 0 ? r : buffer_append(&batch->out, buffer_bytes(message), message->length - 1);
}

int batch_close(struct batch *batch)
{
        return batch->out.length == 0 ? 0 : buffer_append(&batch->out, "]\n", 2);
}
