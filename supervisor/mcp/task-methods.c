/* Requests about tasks, and how tasks are written. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "supervisor/mcp/published-call.h"
#include "supervisor/mcp/result.h"
#include "supervisor/mcp/tasks-internal.h"

enum { TIME_SIZE = 40 };

/* ---- tasks as JSON ---- */

static const char *status_name(const struct mcp_task *task, bool legacy)
{
        static const char *const names[] = {"working", "completed", "failed", "cancelled"};
        static_assert(ARRAY_SIZE(names) == TASK_STATUS_MAX, "a name a status");

        /* A tool's own error is a failure in 2025-11-25 only. */
        if (legacy && task->status == TASK_COMPLETED && task->is_error)
                return names[TASK_FAILED];
        return names[task->status];
}

static void format_time(int64_t ms, char text[TIME_SIZE])
{
        time_t seconds = (time_t)(ms / 1000);
        struct tm tm;

        gmtime_r(&seconds, &tm);
        size_t n = strftime(text, TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
        snprintf(text + n, TIME_SIZE - n, ".%03dZ", (int)(ms % 1000));
}

/* status: in place of its own, or NULL. */
static int append_members(const struct mcp_task *task, bool legacy, const char *status,
                          struct buffer *to)
{
        char created[TIME_SIZE], updated[TIME_SIZE];

        format_time(task->created_ms, created);
        format_time(task->updated_ms, updated);
        return buffer_printf(to,
                             "\"taskId\":\"%s\",\"status\":\"%s\",\"createdAt\":\"%s\","
                             "\"lastUpdatedAt\":\"%s\",\"%s\":%llu,\"%s\":%d",
                             task->id, status ? status : status_name(task, legacy), created,
                             updated, legacy ? "ttl" : "ttlMs", (unsigned long long)task->ttl_ms,
                             legacy ? "pollInterval" : "pollIntervalMs", TASK_POLL_MS);
}

int task_append_legacy(const struct mcp_task *task, struct buffer *to)
{
        int r = buffer_append(to, "{", 1);

        if (r >= 0)
                r = append_members(task, true, NULL, to);
        return r < 0 ? r : buffer_append(to, "}", 1);
}

int task_append_modern(const struct mcp_task *task, struct buffer *to)
{
        return append_members(task, false, NULL, to);
}

/* The questions of a task that works, and its status because of them. */
static int append_questions(const struct mcp_task *task, struct buffer *to)
{
        _cleanup_buffer_ struct buffer input = BUFFER_INIT(TASK_RESULT_MAX);
        int asked = task->work ? task->work->append_input(task->work_data, &input) : 0;

        int r = append_members(task, false, asked > 0 ? "input_required" : NULL, to);
        if (r < 0 || asked <= 0)
                return r;
        r = buffer_append_text(to, ",\"inputRequests\":");
        return r < 0 ? r : buffer_append(to, buffer_bytes(&input), input.length);
}

int task_append_detailed(const struct mcp_task *task, struct buffer *to)
{
        if (task->status == TASK_WORKING)
                return append_questions(task, to);
        int r = append_members(task, false, NULL, to);

        if (r < 0 || (task->status != TASK_COMPLETED && task->status != TASK_FAILED))
                return r;
        r = buffer_append_text(to, task->status == TASK_COMPLETED ? ",\"result\":" : ",\"error\":");
        if (r >= 0 && task->payload.length == 0)
                return buffer_append_text(to,
                                          "{\"code\":-32603,\"message\":\"the result is lost\"}");
        return r < 0 ? r : buffer_append(to, buffer_bytes(&task->payload), task->payload.length);
}

/* ---- which task ---- */

bool task_has_ended(const struct mcp_task *task)
{
        return task->status != TASK_WORKING;
}

struct mcp_task *tasks_find(const struct mcp_principal *principal, const char *id)
{
        struct mcp_task *task;

        if (principal->tasks.n == 0)
                return NULL;
        TAILQ_FOREACH (task, &principal->tasks.list, link) {
                if (strcmp(task->id, id) == 0)
                        return task;
        }
        return NULL;
}

void tasks_answer_undeclared(struct mcp_server *server, struct reply *reply)
{
        static const char text[] = "{\"requiredCapabilities\":{\"extensions\":{\"" TASKS_EXTENSION
                                   "\":{}}}}";
        _cleanup_buffer_ struct buffer data = BUFFER_INIT(sizeof(text));

        int r = buffer_append(&data, text, sizeof(text) - 1);
        mcp_answer_error_data(server, reply, MCP_CLIENT_LACKS,
                              "the client does not declare the extension " TASKS_EXTENSION,
                              r >= 0 ? &data : NULL);
}

/* Whether the request may ask about tasks; answers it if not. */
static bool is_allowed(struct mcp_server *server, const struct mcp_request *request,
                       struct reply *reply)
{
        if (request->era == ERA_LEGACY && request->peer->version < MCP_2025_11_25) {
                mcp_answer_error(server, reply, JSONRPC_METHOD_NOT_FOUND, "method not found");
                return false;
        }
        if (request->era == ERA_MODERN && !tasks_declared(request)) {
                tasks_answer_undeclared(server, reply);
                return false;
        }
        return true;
}

/* NULL: the request was answered with an error. Another principal's task is unknown. */
static struct mcp_task *need_task(struct mcp_server *server, const struct mcp_request *request,
                                  struct reply *reply)
{
        size_t n = 0;
        const char *id = json_string(request->params, "taskId", &n);

        if (!is_allowed(server, request, reply))
                return NULL;
        struct mcp_task *task = id && n <= TASK_ID_MAX && strlen(id) == n
                                        ? tasks_find(request->peer->principal, id)
                                        : NULL;
        if (!task)
                mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS,
                                 id ? "there is no such task, or its time to live is over"
                                    : "params.taskId must be a string");
        return task;
}

/* ---- methods ---- */

void tasks_get(struct mcp_server *server, const struct mcp_request *request, struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        struct mcp_task *task = need_task(server, request, reply);
        int r;

        if (!task)
                return;
        if (request->era == ERA_LEGACY) {
                r = task_append_legacy(task, &result);
        } else {
                task->read |= task->status != TASK_WORKING;
                r = buffer_append(&result, "{", 1);
                if (r >= 0)
                        r = task_append_detailed(task, &result);
                if (r >= 0)
                        r = buffer_append(&result, "}", 1);
        }
        mcp_answer_made(server, reply, r, &result);
}

/* What the request itself would have been answered with, and which task it belongs to. */
static int append_result(const struct mcp_task *task, struct buffer *to)
{
        const struct buffer *payload = &task->payload;
        int r = buffer_printf(to, "{\"_meta\":{\"" META_RELATED_TASK "\":{\"taskId\":\"%s\"}}",
                              task->id);

        if (r >= 0 && payload->length > 2)
                r = buffer_append(to, ",", 1);
        return r < 0 ? r : buffer_append(to, buffer_bytes(payload) + 1, payload->length - 1);
}

static void answer_error(struct mcp_task *task, struct reply *reply)
{
        _cleanup_buffer_ struct buffer data = BUFFER_INIT(TASK_RESULT_MAX);
        _cleanup_json_ yyjson_doc *doc = NULL;
        int64_t code = JSONRPC_INTERNAL_ERROR;

        if (task->payload.length > 0)
                json_parse(buffer_bytes(&task->payload), task->payload.length, &doc, NULL);
        yyjson_val *error = yyjson_doc_get_root(doc), *more = yyjson_obj_get(error, "data");
        const char *message = json_string(error, "message", NULL);
        json_int64(yyjson_obj_get(error, "code"), &code);
        bool has_data = more && json_append(&data, more) >= 0;
        mcp_answer_error_data(task->server, reply, (int)code,
                              message ? message : "the result is lost", has_data ? &data : NULL);
}

void task_answer_result(struct mcp_task *task, struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);

        task->read = true;
        if (task->status == TASK_CANCELLED) {
                mcp_answer_error(task->server, reply, JSONRPC_INVALID_REQUEST,
                                 "the task was cancelled");
        } else if (task->status == TASK_FAILED) {
                answer_error(task, reply);
        } else {
                int r = append_result(task, &result);
                mcp_answer_made(task->server, reply, r, &result);
        }
}

void tasks_result(struct mcp_server *server, const struct mcp_request *request, struct reply *reply)
{
        struct mcp_task *task = need_task(server, request, reply);
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
                mcp_answer_error(
                        server, reply, JSONRPC_INTERNAL_ERROR,
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
        uint64_t last = 0;
        int r = buffer_append_text(to, "{\"tasks\":[");

        while (task && task->serial >= below)
                task = TAILQ_NEXT(task, link);
        for (int i = 0; task && i < TASKS_PAGE && r >= 0; i++) {
                if (i > 0)
                        r = buffer_append(to, ",", 1);
                if (r >= 0)
                        r = task_append_legacy(task, to);
                last = task->serial;
                task = TAILQ_NEXT(task, link);
        }
        if (r >= 0)
                r = buffer_append(to, "]", 1);
        if (r >= 0 && task)
                r = buffer_printf(to, ",\"nextCursor\":\"%llu\"", (unsigned long long)last);
        return r < 0 ? r : buffer_append(to, "}", 1);
}

void tasks_list(struct mcp_server *server, const struct mcp_request *request, struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        uint64_t below;

        if (!is_allowed(server, request, reply))
                return;
        if (mcp_request_number_cursor(request, &below) < 0) {
                mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS, "unknown cursor");
                return;
        }
        int r = append_list(&request->peer->principal->tasks, below, &result);
        mcp_answer_made(server, reply, r, &result);
}

void tasks_update(struct mcp_server *server, const struct mcp_request *request, struct reply *reply)
{
        struct mcp_task *task = need_task(server, request, reply);
        yyjson_val *responses = yyjson_obj_get(request->params, "inputResponses");

        if (!task)
                return;
        if (!yyjson_is_obj(responses)) {
                mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS,
                                 "params.inputResponses must be an object");
                return;
        }
        mcp_answer_empty(server, reply);
        if (task->work)
                task->work->give_input(task->work_data, responses);
}

void tasks_cancel(struct mcp_server *server, const struct mcp_request *request, struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        struct mcp_task *task = need_task(server, request, reply);
        bool legacy = request->era == ERA_LEGACY;
        char why[100];

        if (!task)
                return;
        if (legacy && task->status != TASK_WORKING) {
                snprintf(why, sizeof(why), "the task has ended already: its status is %s",
                         status_name(task, true));
                mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS, why);
                return;
        }
        if (task->status == TASK_WORKING)
                task_cancel(task);
        int r = legacy ? task_append_legacy(task, &result) : buffer_append(&result, "{}", 2);
        mcp_answer_made(server, reply, r, &result);
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

/* The task goes on: it is cancelled by tasks/cancel. */
bool tasks_wait_cancel(struct mcp_peer *peer, yyjson_val *id)
{
        struct task_waiter **at = find_waiter(peer, id), *waiter = at ? *at : NULL;

        if (!waiter)
                return false;
        *at = waiter->next;
        peer->principal->tasks.n_waiting--;
        mcp_answer_nothing(peer->server, &waiter->reply);
        reply_done(&waiter->reply);
        free(waiter);
        return true;
}
