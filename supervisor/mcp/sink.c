/* Messages to clients. */
#include "supervisor/mcp/sink.h"

#include "base/json-out.h"
#include "rpc/jsonrpc.h"
#include "supervisor/service/phase.h"

void mcp_sink_send(struct mcp_sink *sink, const struct buffer *bytes, bool answers, int code)
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

void mcp_sink_name_session(struct mcp_sink *sink, const char *session)
{
        if (sink && sink->calls->names_session)
                sink->calls->names_session(sink, session);
}

void mcp_sink_refuse(struct mcp_sink *sink, const struct buffer *bytes,
                     const struct service_refusal *refusal)
{
        const struct mcp_message message = {
                .bytes = buffer_bytes(bytes),
                .n = bytes->length,
                .answers = true,
                .code = SERVICE_REFUSED,
                .refusal = refusal,
        };

        sink->calls->send(sink, &message);
}

void mcp_sink_unanswered(struct mcp_sink *sink)
{
        if (sink && sink->calls->unanswered)
                sink->calls->unanswered(sink);
}

void mcp_sink_notify(struct mcp_sink *sink, const char *method, const struct buffer *params)
{
        _cleanup_buffer_ struct buffer message = BUFFER_INIT(RESULT_MAX);

        int r = jsonrpc_append_notification(&message, method, params ? buffer_bytes(params) : NULL,
                                            params ? params->length : 0);
        if (r >= 0)
                mcp_sink_send(sink, &message, false, 0);
}

void mcp_sink_notify_out(struct mcp_sink *sink, const char *method, struct json_out *out)
{
        json_out_end(out, '}');
        if (out->error >= 0)
                mcp_sink_notify(sink, method, out->to);
}
