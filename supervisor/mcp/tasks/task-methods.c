/* Requests about tasks. */
#include "supervisor/mcp/tasks/task-methods.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/jsonrpc.h"
#include "supervisor/mcp/state.h"
#include "supervisor/mcp/tasks/task-reply.h"

/* ---- which task ---- */

/* Whether the request may ask about tasks; answers it if not. */
static bool is_allowed(const struct mcp_request *request, struct reply *reply)
{
        if (request->era == ERA_LEGACY && request->peer->version < MCP_2025_11_25) {
                reply_error(reply, JSONRPC_METHOD_NOT_FOUND, "method not found");
                return false;
        }
        if (request->era == ERA_MODERN && !tasks_declared(request)) {
                tasks_reply_undeclared(reply);
                return false;
        }
        return true;
}

/* NULL: the request was answered with an error. Another principal's task is unknown. */
static struct mcp_task *need_task(const struct mcp_request *request, struct reply *reply)
{
        size_t n = 0;
        const char *id = json_string(request->params, "taskId", &n);

        if (!is_allowed(request, reply))
                return NULL;
        struct mcp_task *task = id && n <= TASK_ID_MAX && strlen(id) == n
                                        ? tasks_find(request->peer->principal, id)
                                        : NULL;
        if (!task)
                reply_error(reply, JSONRPC_INVALID_PARAMS,
                            id ? "there is no such task, or its time to live is over"
                               : "params.taskId must be a string");
        return task;
}

/* ---- methods ---- */

void tasks_get(const struct mcp_request *request, struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        struct json_out out = {.to = &result};
        struct mcp_task *task = need_task(request, reply);

        if (!task)
                return;
        json_out_begin(&out, NULL, '{');
        if (request->era == ERA_LEGACY) {
                task_put_legacy(&out, task);
        } else {
                task->read |= task->status != TASK_WORKING;
                task_put_detailed(&out, task);
        }
        json_out_end(&out, '}');
        reply_made(reply, out.error, &result);
}

void tasks_result(const struct mcp_request *request, struct reply *reply)
{
        struct mcp_task *task = need_task(request, reply);
        struct tasks *tasks = &request->peer->principal->tasks;

        if (!task)
                return;
        if (task->status != TASK_WORKING) {
                task_answer_result(task, reply);
                return;
        }
        struct task_waiter *waiter = tasks->n_waiting < TASK_WAITERS_MAX
                                             ? calloc(1, sizeof(*waiter))
                                             : NULL;
        if (!waiter) {
                reply_error(reply, JSONRPC_INTERNAL_ERROR,
                            "too many requests wait for results of tasks: poll with tasks/get");
                return;
        }
        *waiter = (struct task_waiter){
                .next = task->waiters, .peer = request->peer, .reply = *reply};
        *reply = (struct reply){};
        task->waiters = waiter;
        tasks->n_waiting++;
}

static int append_list(const struct tasks *tasks, uint64_t below, struct buffer *to)
{
        struct mcp_task *task = tasks->n > 0 ? TAILQ_FIRST(&tasks->list) : NULL;
        struct json_out out = {.to = to};
        uint64_t last = 0;

        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "tasks", '[');
        while (task && task->serial >= below)
                task = TAILQ_NEXT(task, link);
        for (int i = 0; task && i < TASKS_PAGE; i++) {
                json_out_begin(&out, NULL, '{');
                task_put_legacy(&out, task);
                json_out_end(&out, '}');
                last = task->serial;
                task = TAILQ_NEXT(task, link);
        }
        json_out_end(&out, ']');
        if (task)
                mcp_put_cursor(&out, last);
        json_out_end(&out, '}');
        return out.error;
}

void tasks_list(const struct mcp_request *request, struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        uint64_t below;

        if (!is_allowed(request, reply))
                return;
        if (mcp_request_number_cursor(request, &below) < 0) {
                reply_error(reply, JSONRPC_INVALID_PARAMS, "unknown cursor");
                return;
        }
        int r = append_list(&request->peer->principal->tasks, below, &result);
        reply_made(reply, r, &result);
}

void tasks_update(const struct mcp_request *request, struct reply *reply)
{
        struct mcp_task *task = need_task(request, reply);
        yyjson_val *responses = yyjson_obj_get(request->params, "inputResponses");

        if (!task)
                return;
        if (!yyjson_is_obj(responses)) {
                reply_error(reply, JSONRPC_INVALID_PARAMS,
                            "params.inputResponses must be an object");
                return;
        }
        reply_empty(reply);
        if (task->work)
                task->work->give_input(task->work_data, responses);
}

void tasks_cancel(const struct mcp_request *request, struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        struct json_out out = {.to = &result};
        struct mcp_task *task = need_task(request, reply);
        bool legacy = request->era == ERA_LEGACY;
        char why[100];

        if (!task)
                return;
        if (legacy && task->status != TASK_WORKING) {
                snprintf(why, sizeof(why), "the task has ended already: its status is %s",
                         task_status_legacy(task));
                reply_error(reply, JSONRPC_INVALID_PARAMS, why);
                return;
        }
        if (task->status == TASK_WORKING)
                task_cancel(task);
        json_out_begin(&out, NULL, '{');
        if (legacy)
                task_put_legacy(&out, task);
        json_out_end(&out, '}');
        reply_made(reply, out.error, &result);
}

/* ---- tasks/result that waits ---- */

static struct task_waiter **find_waiter(const struct mcp_peer *peer, yyjson_val *id)
{
        struct tasks *tasks = &peer->principal->tasks;
        struct mcp_task *task;

        if (tasks->n_waiting == 0)
                return NULL;
        TAILQ_FOREACH (task, &tasks->list, link) {
                for (struct task_waiter **at = &task->waiters; *at; at = &(*at)->next) {
                        if ((*at)->peer == peer && jsonrpc_id_equals(reply_id(&(*at)->reply), id))
                                return at;
                }
        }
        return NULL;
}

bool tasks_wait_is_pending(const struct mcp_peer *peer, yyjson_val *id)
{
        return find_waiter(peer, id) != NULL;
}

/* The task continues: only tasks/cancel cancels it. */
bool tasks_wait_cancel(struct mcp_peer *peer, yyjson_val *id)
{
        struct task_waiter **at = find_waiter(peer, id), *waiter = at ? *at : NULL;

        if (!waiter)
                return false;
        *at = waiter->next;
        peer->principal->tasks.n_waiting--;
        reply_nothing(&waiter->reply);
        reply_done(&waiter->reply);
        free(waiter);
        return true;
}
