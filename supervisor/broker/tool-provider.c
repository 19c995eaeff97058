/* The hub behind the table of supervisor/session/tool-provider.h. */
#include "supervisor/broker/tool-provider.h"

static void start(void *data, const struct config_profile *profile, enum tool_servers which)
{
        hub_start(data, profile, which == TOOL_SERVERS_ALL ? HUB_ALL : HUB_UNKNOWN);
}

static const struct buffer *catalogue(void *data, const struct config_profile *profile,
                                      uint64_t *version)
{
        return hub_catalogue(data, profile, version);
}

static void on_result(void *data, const struct hub_result *result)
{
        const struct tool_result tool_result = {
                .error_kind = result->outcome == HUB_OK ? NULL : hub_outcome_kind(result->outcome),
                .result = result->result,
                .text = result->text,
                .text_length = result->text_length,
                .memfd = result->memfd,
                .memfd_length = result->memfd_length,
                .message = result->message,
                .rpc_code = result->rpc_code,
                .rpc_data = result->rpc_data,
                .duration_us = result->duration_us,
                .sent = result->sent,
        };
        tool_call_done(data, &tool_result);
}

static int call(void *data, const struct config_profile *profile, const char *server,
                const char *tool, yyjson_val *arguments, uint32_t timeout_ms,
                struct tool_call *tool_call, void **handle, struct error *err)
{
        struct hub_call *hub_call_handle;

        int r = hub_call(data, profile, server, tool, arguments, timeout_ms, on_result, tool_call,
                         &hub_call_handle, err);
        if (r >= 0)
                *handle = hub_call_handle;
        return r;
}

static void drop(void *handle)
{
        hub_call_drop(handle);
}

static bool is_sent(void *handle)
{
        return hub_call_is_sent(handle);
}

static void on_waited(void *data)
{
        tool_wait_done(data);
}

static void *wait_for_servers(void *data, const struct config_profile *profile, uint32_t timeout_ms,
                              struct tool_call *tool_call)
{
        return hub_wait(data, profile, timeout_ms, on_waited, tool_call);
}

static void cancel_wait(void *handle)
{
        hub_wait_cancel(handle);
}

struct tool_provider broker_tool_provider(struct hub *hub)
{
        return (struct tool_provider){
                .data = hub,
                .start = start,
                .catalogue = catalogue,
                .call = call,
                .drop = drop,
                .is_sent = is_sent,
                .wait = wait_for_servers,
                .cancel_wait = cancel_wait,
        };
}
