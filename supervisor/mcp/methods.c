/* Methods of the MCP server. */
#include "supervisor/mcp/methods.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json-out.h"
#include "base/log.h"
#include "rpc/client-request.h"
#include "supervisor/mcp/call/run.h"
#include "supervisor/mcp/profile.h"
#include "supervisor/mcp/publish/published-call.h"
#include "supervisor/mcp/resources/resources.h"
#include "supervisor/mcp/state.h"
#include "supervisor/mcp/subscriptions.h"
#include "supervisor/mcp/tasks/tasks.h"
#include "supervisor/mcp/tool.h"
#include "supervisor/service/metrics.h"

enum { SMALL_MAX = 1024 * 1024 };

static const char *const version_names[] = {
        [MCP_2024_11_05] = "2024-11-05",
        [MCP_2025_03_26] = "2025-03-26",
        [MCP_2025_06_18] = "2025-06-18",
        [MCP_2025_11_25] = "2025-11-25",
};
static_assert(ARRAY_SIZE(version_names) == MCP_VERSION_MAX, "a name a version");

static void choose_version(struct mcp_peer *peer, yyjson_val *params)
{
        const char *asked = json_string(params, "protocolVersion", NULL);

        peer->version = MCP_2025_11_25;
        for (int i = 0; i < MCP_VERSION_MAX; i++) {
                if (strcmp(asked, version_names[i]) == 0)
                        peer->version = (enum mcp_version)i;
        }
}

static int put_instructions(struct json_out *out, struct mcp_peer *peer, enum mcp_era era,
                            struct error *err)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(SMALL_MAX);
        const struct config_as *as = &peer->server->config->as;

        if (as->instructions)
                json_out_text(out, "instructions", as->instructions);
        if (as->name)
                return 0;
        int r = tool_append_instructions(peer->server->config, tool_list_catalogue(peer, era, NULL),
                                         &text, err);
        if (r >= 0)
                json_out_string(out, "instructions", buffer_bytes(&text), text.length);
        return r;
}

#define CAPABILITIES                                                                               \
        "\"completions\":{},\"logging\":{},\"prompts\":{\"listChanged\":true},"                    \
        "\"resources\":{\"listChanged\":true,\"subscribe\":true},\"tools\":{\"listChanged\":true}"

static void put_text(struct json_out *out, const char *key, const char *json)
{
        json_out_raw(out, key, json, strlen(json));
}

static void answer_made(struct reply *reply, int r, const struct buffer *result,
                        const struct error *err)
{
        if (r >= 0)
                reply_result(reply, result);
        else
                reply_error(reply, JSONRPC_INTERNAL_ERROR,
                            error_is_set(err) ? err->text : strerror(-r));
}

/* Refuses what the schema and "Lifecycle" of revision 2025-03-26 do not allow. */
static bool refuse_initialize(yyjson_val *params, struct reply *reply)
{
        const char *why = NULL;

        if (reply->batch) {
                reply_error(reply, JSONRPC_INVALID_REQUEST,
                            "initialize must not be part of a batch");
                return true;
        }
        if (!yyjson_is_str(yyjson_obj_get(params, "protocolVersion")))
                why = "params.protocolVersion must be a string";
        else if (!yyjson_is_obj(yyjson_obj_get(params, "capabilities")))
                why = "params.capabilities must be an object";
        else if (!mcp_is_implementation(yyjson_obj_get(params, "clientInfo")))
                why = "params.clientInfo must be an object with strings name and version";
        if (why)
                reply_error(reply, JSONRPC_INVALID_PARAMS, why);
        return why;
}

void mcp_note_can(struct mcp_server *server, unsigned can)
{
        if (!(can & ~server->can))
                return;
        server->can |= can;
        if (server->tools.add_client)
                server->tools.add_client(server->tools.data, server->can);
}

static void on_initialize(const struct mcp_request *request, struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(SMALL_MAX);
        struct json_out out = {.to = &result};
        struct mcp_peer *peer = request->peer;
        yyjson_val *capabilities = yyjson_obj_get(request->params, "capabilities");
        struct error err = {};

        if (refuse_initialize(request->params, reply))
                return;
        choose_version(peer, request->params);
        reply->operation.version = version_names[peer->version];
        snprintf(peer->client, sizeof(peer->client), "%s",
                 json_string(yyjson_obj_get(request->params, "clientInfo"), "name", NULL));
        /* Capabilities that are too large count as empty. */
        buffer_consume(&peer->capabilities, peer->capabilities.length);
        if (json_append(&peer->capabilities, capabilities) < 0)
                log_warning("a client's capabilities were dropped: more than %d bytes",
                            PEER_CAPABILITIES_MAX);
        peer->initialized = true;
        peer->can = client_can_read(capabilities);
        mcp_note_can(peer->server, peer->can);
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "protocolVersion", version_names[peer->version]);
        put_text(&out, "capabilities",
                 peer->version >= MCP_2025_11_25 ? "{" CAPABILITIES
                                                   ",\"tasks\":{\"list\":{},\"cancel\":{},"
                                                   "\"requests\":{\"tools\":{\"call\":{}}}}}"
                                                 : "{" CAPABILITIES "}");
        put_text(&out, "serverInfo", mcp_server_info());
        int r = put_instructions(&out, peer, ERA_LEGACY, &err);
        json_out_end(&out, '}');
        answer_made(reply, r < 0 ? r : out.error, &result, &err);
}

static void on_discover(const struct mcp_request *request, struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(SMALL_MAX);
        struct json_out out = {.to = &result};
        struct error err = {};

        reply->caching = &caching_lists;
        json_out_begin(&out, NULL, '{');
        put_text(&out, "supportedVersions", "[\"" MCP_MODERN_VERSION "\"]");
        put_text(&out, "capabilities",
                 "{" CAPABILITIES ",\"extensions\":{\"" TASKS_EXTENSION "\":{}}}");
        int r = put_instructions(&out, request->peer, ERA_MODERN, &err);
        json_out_end(&out, '}');
        answer_made(reply, r < 0 ? r : out.error, &result, &err);
}

static void on_ping(const struct mcp_request *request, struct reply *reply)
{
        reply_empty(reply);
}

static void on_set_level(const struct mcp_request *request, struct reply *reply)
{
        if (mcp_log_level_read(yyjson_obj_get(request->params, "level"),
                               &request->peer->log_level) < 0)
                reply_error(
                        reply, JSONRPC_INVALID_PARAMS,
                        "params.level must be debug, info, notice, warning, error, critical, alert or emergency");
        else
                reply_empty(reply);
}

void mcp_client_is_ready(struct mcp_peer *peer, enum mcp_era era)
{
        struct mcp_server *server = peer->server;

        server->tools.start(server->tools.data, mcp_profile(peer, era), TOOL_SERVERS_UNKNOWN);
        sessions_expect(server->sessions, mcp_profile(peer, era));
}

/* As another system, the server has run_python and run_javascript only if --also asks for them. */
static bool has_own_tools(const struct config *config)
{
        return !config->as.name || config->as.also;
}

/* Its own tools, then those of the config. */
static int append_tools(const struct mcp_request *request, struct buffer *to, struct error *err)
{
        bool own = has_own_tools(request->peer->server->config);
        const struct buffer *tool = own ? tool_list_get(request->peer, request->era, err) : NULL;
        struct json_out out = {.to = to};

        if (!tool && own)
                return -ENOMEM;
        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "tools", '[');
        if (tool)
                json_out_buffer(&out, NULL, tool);
        published_put(request->peer->principal, PUBLISHED_TOOL, &out);
        json_out_end(&out, ']');
        json_out_end(&out, '}');
        return out.error;
}

static void on_tools_list(const struct mcp_request *request, struct reply *reply)
{
        struct mcp_server *server = request->peer->server;
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        struct error err = {};

        if (!mcp_request_is_first_page(request)) {
                reply_error(reply, JSONRPC_INVALID_PARAMS, "unknown cursor: the list has one page");
                return;
        }
        int r = append_tools(request, &result, &err);
        if (r >= 0)
                subscription_list_sent(request, LIST_TOOLS);
        reply->caching = &caching_lists;
        answer_made(reply, r, &result, &err);
        subscriptions_lists_changed(server, NULL);
        mcp_client_is_ready(request->peer, request->era);
}

/* ---- tools/call ---- */

/* The language of the connection's profile. */
static enum language tool_of(const struct mcp_request *request)
{
        const struct config_profile *own = mcp_profile(request->peer, request->era);

        return own ? own->language : LANGUAGE_PYTHON;
}

static void start_tool(const struct mcp_request *request, const struct config_published *tool,
                       struct reply *reply)
{
        const char *name = json_string(request->params, "name", NULL);
        int language = name ? tool_language(name) : -1;
        const struct config_profile *used;
        char text[256];

        if (tool) {
                published_call_tool(request, tool, reply);
        } else if (!has_own_tools(request->peer->server->config)) {
                snprintf(text, sizeof(text),
                         name ? "unknown tool: %.60s" : "params.name must be a string%.0s",
                         name ? name : "");
                reply_error(reply, JSONRPC_INVALID_PARAMS, text);
        } else if (language >= 0 && mcp_profile_for(request->peer->server->config,
                                                    mcp_profile(request->peer, request->era),
                                                    (enum language)language, &used)) {
                mcp_run_code(request, (enum language)language, reply);
        } else {
                snprintf(text, sizeof(text),
                         name ? "unknown tool: %.60s (there is %s)"
                              : "params.name must be a string%.0s (there is %s)",
                         name ? name : "", tool_names[tool_of(request)]);
                reply_error(reply, JSONRPC_INVALID_PARAMS, text);
        }
}

/* Returns the error of params.task, or NULL. */
static const char *read_ttl(yyjson_val *asked, uint64_t *ttl_ms)
{
        yyjson_val *ttl = yyjson_obj_get(asked, "ttl");
        double ms = 0;

        if (!yyjson_is_obj(asked))
                return "params.task must be an object";
        if (!ttl || yyjson_is_null(ttl))
                return NULL;
        if (json_double(ttl, &ms) < 0 || !(ms >= 0))
                return "params.task.ttl must be a number of milliseconds";
        *ttl_ms = ms < TASK_TTL_MIN_MS   ? TASK_TTL_MIN_MS
                  : ms > TASK_TTL_MAX_MS ? TASK_TTL_MAX_MS
                                         : (uint64_t)ms;
        return NULL;
}

/* NULL after it has answered an error. */
static struct mcp_task *need_task(const struct mcp_request *request, uint64_t ttl_ms,
                                  struct reply *reply)
{
        bool full = tasks_are_full(&request->peer->principal->tasks);
        struct mcp_task *task = full ? NULL : task_new(request, ttl_ms, reply);

        if (!task)
                reply_error(
                        reply, JSONRPC_INTERNAL_ERROR,
                        full ? "too many tasks are kept: read their results, or wait until their time is over"
                             : strerror(ENOMEM));
        return task;
}

/* The client asks for a task: it gets the task at once, unless the call is answered at once. */
static void call_asked(const struct mcp_request *request, const struct config_published *tool,
                       yyjson_val *asked, struct reply *reply)
{
        struct mcp_server *server = request->peer->server;
        uint64_t ttl_ms = TASK_TTL_MS + server->config->cell_timeout_max_ms;
        const char *why = read_ttl(asked, &ttl_ms);
        bool gone = false;

        if (why) {
                reply_error(reply, JSONRPC_INVALID_PARAMS, why);
                return;
        }
        struct mcp_task *task = need_task(request, ttl_ms, reply);
        if (!task)
                return;
        task->gone = &gone;
        start_tool(request, tool, reply);
        if (gone)
                return;
        task->gone = NULL;
        task_announce(task);
}

/* The client decides. */
static void call_legacy(const struct mcp_request *request, const struct config_published *tool,
                        enum config_task_support support, struct reply *reply)
{
        yyjson_val *asked = request->peer->version >= MCP_2025_11_25
                                    ? yyjson_obj_get(request->params, "task")
                                    : NULL;

        if (asked && support == TASK_SUPPORT_FORBIDDEN)
                reply_error(reply, JSONRPC_METHOD_NOT_FOUND,
                            "the tool cannot be called as a task: call it without params.task");
        else if (!asked && support == TASK_SUPPORT_REQUIRED)
                reply_error(
                        reply, JSONRPC_METHOD_NOT_FOUND,
                        "the tool can only be called as a task: with params.task, by a client of 2025-11-25 or later");
        else if (asked)
                call_asked(request, tool, asked, reply);
        else
                start_tool(request, tool, reply);
}

/* The server decides, where the client declares the extension. */
static void call_modern(const struct mcp_request *request, const struct config_published *tool,
                        enum config_task_support support, struct reply *reply)
{
        uint64_t ttl_ms = TASK_TTL_MS + request->peer->server->config->cell_timeout_max_ms;
        bool required = support == TASK_SUPPORT_REQUIRED, declared = tasks_declared(request);
        struct mcp_task *task = NULL;

        if (required && !declared) {
                tasks_reply_undeclared(reply);
                return;
        }
        if (required)
                task = need_task(request, ttl_ms, reply);
        else if (declared && support != TASK_SUPPORT_FORBIDDEN)
                task = task_new(request, ttl_ms, reply);
        if (required && !task)
                return;
        if (task) {
                task->required = required;
                task_announce_after(task, TASK_AFTER_MS);
        }
        start_tool(request, tool, reply);
}

/* run_python can be a task; an unknown name gets its error without one. */
static void on_tools_call(const struct mcp_request *request, struct reply *reply)
{
        const char *name = json_string(request->params, "name", NULL);
        const struct config_published *tool = published_find(request->peer->principal,
                                                             PUBLISHED_TOOL, name);

        enum config_task_support support = tool ? tool->task_support : TASK_SUPPORT_OPTIONAL;
        if (request->era == ERA_LEGACY)
                call_legacy(request, tool, support, reply);
        else
                call_modern(request, tool, support, reply);
}

static const struct method {
        const char *name;
        unsigned eras;
        void (*handle)(const struct mcp_request *request, struct reply *reply);
} methods[] = {
        {"initialize", ERA_LEGACY, on_initialize},
        {"ping", ERA_LEGACY, on_ping},
        {"logging/setLevel", ERA_LEGACY, on_set_level},
        {"server/discover", ERA_MODERN, on_discover},
        {"subscriptions/listen", ERA_MODERN, subscriptions_listen},
        {"tools/list", ERA_LEGACY | ERA_MODERN, on_tools_list},
        {"tools/call", ERA_LEGACY | ERA_MODERN, on_tools_call},
        {"tasks/get", ERA_LEGACY | ERA_MODERN, tasks_get},
        {"tasks/cancel", ERA_LEGACY | ERA_MODERN, tasks_cancel},
        {"tasks/result", ERA_LEGACY, tasks_result},
        {"tasks/list", ERA_LEGACY, tasks_list},
        {"tasks/update", ERA_MODERN, tasks_update},
        {"prompts/list", ERA_LEGACY | ERA_MODERN, published_list_prompts},
        {"prompts/get", ERA_LEGACY | ERA_MODERN, published_call_prompt},
        {"completion/complete", ERA_LEGACY | ERA_MODERN, published_complete},
        {"resources/list", ERA_LEGACY | ERA_MODERN, resources_list},
        {"resources/templates/list", ERA_LEGACY | ERA_MODERN, resources_templates},
        {"resources/read", ERA_LEGACY | ERA_MODERN, resources_read},
        {"resources/subscribe", ERA_LEGACY, resources_subscribe},
        {"resources/unsubscribe", ERA_LEGACY, resources_unsubscribe},
};

static const struct method *find_method(const struct jsonrpc_message *message)
{
        const struct method *method = methods, *end = methods + ARRAY_SIZE(methods);

        while (method < end && !jsonrpc_method_is(message, method->name))
                method++;
        return method;
}

/* The tool that a request names, if there is one. */
static const char *tool_label(const struct mcp_request *request)
{
        const char *name = json_string(request->params, "name", NULL);
        int language = name ? tool_language(name) : -1;

        if (language >= 0)
                return tool_names[language];
        return name && published_find(request->peer->principal, PUBLISHED_TOOL, name)
                       ? operation_tool_name(name)
                       : METRIC_OTHER;
}

void mcp_method_begin(const struct jsonrpc_message *message, const struct mcp_request *request,
                      struct operation *ret)
{
        const struct method *method = find_method(message), *end = methods + ARRAY_SIZE(methods);
        const struct mcp_peer *peer = request->peer;

        *ret = (struct operation){
                .method = method < end ? method->name : METRIC_OTHER,
                .tool = jsonrpc_method_is(message, "tools/call") ? tool_label(request) : "",
                .version = request->era == ERA_MODERN ? MCP_MODERN_VERSION
                           : peer->initialized        ? version_names[peer->version]
                                                      : "",
                .transport = peer->transport,
                .began_us = clock_us(),
        };
}

void mcp_peer_count(const struct mcp_peer *peer)
{
        if (peer->initialized)
                metrics_observe(METRIC_CLIENT_SESSION, (double)(clock_us() - peer->began_us) / 1e6,
                                version_names[peer->version], peer->transport);
}

void mcp_method_run(const struct jsonrpc_message *message, const struct mcp_request *request,
                    struct reply *reply)
{
        const struct method *method = find_method(message), *end = methods + ARRAY_SIZE(methods);

        if (method < end && (method->eras & request->era))
                method->handle(request, reply);
        else if (method < end && method->eras == ERA_MODERN)
                reply_error(reply, JSONRPC_INVALID_PARAMS,
                            "params._meta has no string " META_VERSION);
        else
                reply_error(reply, JSONRPC_METHOD_NOT_FOUND, "method not found");
}
