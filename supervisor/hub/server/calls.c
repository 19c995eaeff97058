/* The calls of a server. */
#include "supervisor/hub/server/calls.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "supervisor/hub/call/caller.h"

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

static bool has_method(void *data, const char *method)
{
        const struct hub_server *s = data;
        const struct hub_method *found = hub_method_find(method);

        return found && (found->needs_prompts ? s->has_prompts : s->has_resources);
}

/* A legacy server gets the level of its log messages once, and again when a client requires more. */
static void set_log_level(struct hub_server *s, const char *level)
{
        static const char *const levels[] = {"emergency", "alert",  "critical", "error",
                                             "warning",   "notice", "info",     "debug"};
        char params[64];

        for (int i = 0; i < (int)ARRAY_SIZE(levels); i++) {
                if (strcmp(levels[i], level) != 0 || i < s->log_level)
                        continue;
                s->log_level = i + 1;
                int n = snprintf(params, sizeof(params), "{\"level\":\"%s\"}", level);
                connection_request(s->connection, "logging/setLevel", params, (size_t)n);
        }
}

static int64_t send_request(void *data, const char *method, const struct hub_client *client,
                            const struct call_params *params)
{
        struct hub_server *s = data;
        bool is_tool = strcmp(method, "tools/call") == 0;
        const struct connection_call call = {
                .can = client ? client->can : 0,
                .log_level = client ? client->log_level : NULL,
                .takes_tasks = is_tool,
        };

        if (!is_tool && !hub_method_find(method))
                return connection_request(s->connection, method, buffer_bytes(&params->bytes),
                                          params->bytes.length);
        if (call.log_level && s->has_logging && !is_modern(s))
                set_log_level(s, call.log_level);
        return connection_call(s->connection, method, &call, params);
}

static void cancel_call(void *data, int64_t id, const char *task, const char *reason)
{
        struct hub_server *s = data;

        if (task && (s->cancels_tasks || is_modern(s))) {
                connection_request(s->connection, "tasks/cancel", task, strlen(task));
                return;
        }
        if (id != 0)
                connection_cancel(s->connection, id, reason);
}

void hub_server_mirror(void *data, yyjson_val *params,
                       void (*add)(void *to, const char *name, const char *value, size_t n),
                       void *to)
{
        const struct hub_server *s = data;
        const char *tool = json_string(params, "name", NULL);

        if (tool && s->tools)
                hub_tools_mirror(s->tools, tool, yyjson_obj_get(params, "arguments"), add, to);
}

static void respond(void *data, yyjson_val *id, const char *result, const char *why)
{
        struct connection *connection = ((struct hub_server *)data)->connection;

        if (result)
                connection_respond(connection, id, result);
        else
                connection_refuse(connection, id, JSONRPC_INTERNAL_ERROR, why);
}

const struct hub_calls_host hub_server_calls_host = {
        .name = hub_server_name,
        .has_tool = has_tool,
        .has_method = has_method,
        .needs_task = needs_task,
        .is_modern = is_modern,
        .send = send_request,
        .cancel = cancel_call,
        .respond = respond,
};

void hub_server_call(struct hub_server *s, struct hub_call *call)
{
        const char *unusable = hub_server_unusable(s), *name = s->config->name;
        uint64_t now = clock_us();

        if (unusable) {
                hub_call_finish(call, EVENT_FAILED, HUB_UNAVAILABLE, "server \"%s\": %s", name,
                                unusable);
                return;
        }
        if (s->calls->count >= CALLS_MAX) {
                hub_call_finish(call, EVENT_FAILED, HUB_UNAVAILABLE,
                                "server \"%s\" has %d calls in flight already", name, CALLS_MAX);
                return;
        }
        /* A server that listens says itself when its tools change. */
        if (s->state == SERVER_READY && !handshake_listens(s->handshake))
                listing_used(s->listing);
        if (s->state == SERVER_READY)
                hub_calls_send(s->calls, call);
        else if (s->state == SERVER_FAILED && now < s->retry_at)
                hub_call_finish(call, EVENT_FAILED, HUB_UNAVAILABLE,
                                "server \"%s\": %s (tried %u times, again in %llu s)", name,
                                s->error.text, s->failures,
                                (unsigned long long)((s->retry_at - now + 999999) / 1000000));
        else if (hub_calls_queue(s->calls, call) &&
                 (s->state == SERVER_STOPPED || s->state == SERVER_FAILED))
                hub_server_start(s);
}
