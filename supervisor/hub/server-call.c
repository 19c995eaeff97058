/* The calls of a server: which are sent, wait or fail at once. */
#include <stdio.h>

#include "base/clock.h"
#include "supervisor/hub/server-internal.h"

static bool has_tool(void *data, const char *tool)
{
        return hub_tools_has(((struct hub_server *)data)->tools, tool);
}

static int64_t send_call(void *data, const char *params, size_t n)
{
        return connection_request(((struct hub_server *)data)->connection, "tools/call", params, n);
}

static void cancel_call(void *data, int64_t id, const char *reason)
{
        char params[128];
        int n = snprintf(params, sizeof(params), "{\"requestId\":%lld,\"reason\":\"%s\"}",
                         (long long)id, reason);

        /* If it cannot be sent, the answer is ignored all the same. */
        connection_notify(((struct hub_server *)data)->connection, "notifications/cancelled",
                          params, (size_t)n);
}

const struct hub_calls_host hub_server_calls_host = {
        .name = hub_server_name,
        .has_tool = has_tool,
        .send = send_call,
        .cancel = cancel_call,
};

void hub_server_call(struct hub_server *s, struct hub_call *call)
{
        const char *unusable = hub_server_unusable(s), *name = s->config->name;
        uint64_t now = clock_us();

        if (unusable) {
                hub_call_fail(call, HUB_UNAVAILABLE, "server \"%s\": %s", name, unusable);
                return;
        }
        if (hub_calls_count(s->calls) >= CALLS_MAX) {
                hub_call_fail(call, HUB_UNAVAILABLE, "server \"%s\" has %d calls in flight already",
                              name, CALLS_MAX);
                return;
        }
        /* A server that listens says itself when its tools change. */
        if (s->state == SERVER_READY && !handshake_listens(s->handshake))
                listing_used(s->listing);
        if (s->state == SERVER_READY)
                hub_calls_send(s->calls, call);
        else if (s->state == SERVER_FAILED && now < s->retry_at)
                hub_call_fail(call, HUB_UNAVAILABLE,
                              "server \"%s\": %s (tried %u times, again in %llu s)", name,
                              s->error.text, s->failures,
                              (unsigned long long)((s->retry_at - now + 999999) / 1000000));
        else if (hub_calls_queue(s->calls, call) &&
                 (s->state == SERVER_STOPPED || s->state == SERVER_FAILED))
                hub_server_start(s);
}
