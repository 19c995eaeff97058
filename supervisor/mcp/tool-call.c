/* Calls of tools. */
#include "supervisor/mcp/tool-call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rpc/jsonrpc.h"
#include "supervisor/mcp/call/run.h"
#include "supervisor/mcp/publish/published-call.h"
#include "supervisor/mcp/state.h"
#include "supervisor/mcp/tasks/task-reply.h"
#include "supervisor/mcp/tool.h"

static const char too_many[] =
        "too many tasks are kept: read their results, or wait until their time is over";

static void start(const struct mcp_request *request, const struct config_published *tool,
                  struct reply *reply)
{
        const char *name = json_string(request->params, "name", NULL);
        char text[256];

        if (tool) {
                published_call_tool(request, tool, reply);
        } else if (name && strcmp(name, TOOL_NAME) == 0) {
                mcp_run_python(request, reply);
        } else {
                snprintf(text, sizeof(text),
                         name ? "unknown tool: %.60s (there is %s)"
                              : "params.name must be a string%.0s (there is %s)",
                         name ? name : "", TOOL_NAME);
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
        if (tasks_are_full(&request->peer->principal->tasks)) {
                reply_error(reply, JSONRPC_INTERNAL_ERROR, too_many);
                return;
        }
        struct mcp_task *task = task_new(request, ttl_ms, reply);
        if (!task) {
                reply_error(reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
                return;
        }
        task->gone = &gone;
        start(request, tool, reply);
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
                start(request, tool, reply);
}

/* The server decides, where the client declares the extension. */
static void call_modern(const struct mcp_request *request, const struct config_published *tool,
                        enum config_task_support support, struct reply *reply)
{
        struct mcp_server *server = request->peer->server;
        bool required = support == TASK_SUPPORT_REQUIRED, declared = tasks_declared(request);
        struct mcp_task *task = NULL;

        if (required && !declared) {
                tasks_reply_undeclared(reply);
                return;
        }
        if (required && tasks_are_full(&request->peer->principal->tasks)) {
                reply_error(reply, JSONRPC_INTERNAL_ERROR, too_many);
                return;
        }
        if (declared && support != TASK_SUPPORT_FORBIDDEN)
                task = task_new(request, TASK_TTL_MS + server->config->cell_timeout_max_ms, reply);
        if (required && !task) {
                reply_error(reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
                return;
        }
        if (task) {
                task->required = required;
                task_announce_after(task, TASK_AFTER_MS);
        }
        start(request, tool, reply);
}

/* run_python can be a task; an unknown name gets its error without one. */
void tools_call(const struct mcp_request *request, struct reply *reply)
{
        const char *name = json_string(request->params, "name", NULL);
        const struct config_published *tool = NULL;

        if (name)
                tool = published_find(request->peer->server, request->peer->principal,
                                      PUBLISHED_TOOL, name);
        enum config_task_support support = tool ? tool->task_support : TASK_SUPPORT_OPTIONAL;
        if (request->era == ERA_LEGACY)
                call_legacy(request, tool, support, reply);
        else
                call_modern(request, tool, support, reply);
}
