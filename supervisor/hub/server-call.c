/* The calls of a server: which are sent, wait or fail at once. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "supervisor/hub/server-internal.h"

static bool has_tool(void *data, const char *tool)
{
        return hub_tools_has(((struct hub_server *)data)->tools, tool);
}

static bool needs_task(void *data, const char *tool)
{
        const struct hub_server *s = data;

        return s->has_tasks && hub_tools_needs_task(s->tools, tool);
}

static bool is_modern(void *data)
{
        return handshake_speaks(((struct hub_server *)data)->handshake) == HUB_ERA_MODERN;
}

static int64_t send_request(void *data, const char *method, const char *params, size_t n)
{
        struct connection *connection = ((struct hub_server *)data)->connection;

        if (strcmp(method, "tools/call") == 0)
                return connection_call(connection, params, n);
        return connection_request(connection, method, params, n);
}

static void cancel_call(void *data, int64_t id, const char *task, const char *reason)
{
        struct hub_server *s = data;
        char params[128];

        if (task && s->cancels_tasks)
                connection_request(s->connection, "tasks/cancel", task, strlen(task));
        int n = snprintf(params, sizeof(params), "{\"requestId\":%lld,\"reason\":\"%s\"}",
                         (long long)id, reason);

        /* If it cannot be sent, the answer is ignored all the same. */
        connection_notify(s->connection, "notifications/cancelled", params, (size_t)n);
}

const struct hub_calls_host hub_server_calls_host = {
        .name = hub_server_name,
        .has_tool = has_tool,
        .needs_task = needs_task,
        .is_modern = is_modern,
        .send = send_request,
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
