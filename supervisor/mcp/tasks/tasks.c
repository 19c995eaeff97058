/* The life of tasks, and requests about them. */
#include "supervisor/mcp/tasks/tasks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "rpc/jsonrpc.h"
#include "supervisor/mcp/state.h"
#include "supervisor/mcp/subscriptions.h"

enum { SMALL = 1024 }; /* bytes of an error that is always kept */

static int64_t now_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- the end ---- */

/* The reply is the caller's. */
static struct reply take_waiter(struct tasks *tasks, struct task_waiter **at)
{
        struct task_waiter *waiter = *at;
        struct reply reply = waiter->reply;

        *at = waiter->next;
        tasks->n_waiting--;
        free(waiter);
        return reply;
}

/* It gets no answer. */
static void drop_waiter(struct tasks *tasks, struct task_waiter **at)
{
        struct reply reply = take_waiter(tasks, at);

        reply_nothing(&reply);
        reply_done(&reply);
}

static void set_unread(struct mcp_task *task, bool unread)
{
        struct mcp_server *server = task->server;

        if (unread)
                server->unread_us = clock_us();
        server->n_unread += (size_t)unread - (size_t)task->is_unread;
        task->is_unread = unread;
}

static void task_free(struct mcp_task *task)
{
        struct tasks *tasks = &task->principal->tasks;

        if (task->gone)
                *task->gone = true;
        if (task->announced) {
                TAILQ_REMOVE(&tasks->list, task, link);
                tasks->n--;
        }
        if (task->reply)
                task->reply->task = NULL;
        tasks->bytes -= task->payload.allocated;
        buffer_done(&task->payload);
        while (task->waiters) {
                struct reply reply = take_waiter(tasks, &task->waiters);
                reply_error(&reply, JSONRPC_INVALID_PARAMS, "the task's time to live is over");
        }
        reply_done(&task->origin);
        set_unread(task, false);
        event_free(task->timer);
        free(task);
}

void tasks_done(struct tasks *tasks)
{
        struct mcp_task *task, *next;

        for (task = tasks->n > 0 ? TAILQ_FIRST(&tasks->list) : NULL; task; task = next) {
                next = TAILQ_NEXT(task, link);
                task_free(task);
        }
}

/* Appends the result that the request would have got, with the id of the task in _meta. */
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
        reply_error_data(reply, (int)code, message ? message : "the result is lost",
                         has_data ? &data : NULL);
}

/* Answers one request for the result of a task that has ended. */
static void answer_result(struct mcp_task *task, struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);

        task->read = true;
        set_unread(task, false);
        if (task->status == TASK_CANCELLED) {
                reply_error(reply, JSONRPC_INVALID_REQUEST, "the task was cancelled");
        } else if (task->status == TASK_FAILED) {
                answer_error(task, reply);
        } else {
                int r = append_result(task, &result);
                reply_made(reply, r, &result);
        }
}

/* Tells those that wait for the end, or want to know of it. */
static void tell_end(struct mcp_task *task)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(RESULT_MAX);
        struct tasks *tasks = &task->principal->tasks;
        struct json_out out = {.to = &params};

        while (task->waiters) {
                struct reply reply = take_waiter(tasks, &task->waiters);
                answer_result(task, &reply);
        }
        json_out_begin(&out, NULL, '{');
        task_put(&out, task, ERA_LEGACY, NULL);
        if (task->peer)
                mcp_sink_notify_out(task->peer->legacy.reply.sink, "notifications/tasks/status",
                                    &out);
        subscriptions_task_changed(task->server, task->principal, task);
}

static void end(struct mcp_task *task, enum task_status status)
{
        task->status = status;
        task->updated_ms = now_ms();
        task->work = NULL;
        if (task->reply)
                task->reply->task = NULL;
        task->reply = NULL;
        if (task->announced && status != TASK_CANCELLED)
                set_unread(task, true);
        log_debug("task %.24s… has ended", task->id);
        tell_end(task);
}

/* Ends its work without an answer. */
static void task_cancel(struct mcp_task *task)
{
        const struct task_work *work = task->work;
        void *data = task->work_data;

        end(task, TASK_CANCELLED);
        if (work)
                work->cancel(data);
}

/* ---- the client gets the task ---- */

/* Frees the oldest task that was cancelled or whose result was read. Returns whether there was one. */
static bool make_room(struct tasks *tasks)
{
        struct mcp_task *task;

        TAILQ_FOREACH_REVERSE(task, &tasks->list, task_queue, link)
        {
                if (task->read || task->status == TASK_CANCELLED) {
                        task_free(task);
                        return true;
                }
        }
        return false;
}

void task_announce_after(struct mcp_task *task, uint64_t after_ms)
{
        struct timeval t = clock_timeval_ms(after_ms);

        evtimer_add(task->timer, &t);
}

bool tasks_are_full(struct tasks *tasks)
{
        return tasks->n >= TASKS_MAX && !make_room(tasks);
}

/* The task continues without the request. */
void task_announce(struct mcp_task *task)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        struct json_out out = {.to = &result};
        struct tasks *tasks = &task->principal->tasks;
        struct reply origin = task->origin;

        task->origin = (struct reply){};
        task->announced = true;
        task->serial = ++tasks->serial;
        if (tasks->n++ == 0)
                TAILQ_INIT(&tasks->list);
        TAILQ_INSERT_HEAD(&tasks->list, task, link);
        uint64_t age = (clock_us() - task->born_us) / 1000;
        const struct timeval rest = clock_timeval_ms(task->ttl_ms > age ? task->ttl_ms - age : 0);
        evtimer_add(task->timer, &rest);
        origin.is_task = true;
        json_out_begin(&out, NULL, '{');
        if (task->era == ERA_LEGACY)
                json_out_begin(&out, "task", '{');
        task_put(&out, task, task->era, NULL);
        if (task->era == ERA_LEGACY)
                json_out_end(&out, '}');
        json_out_end(&out, '}');
        if (task->work)
                task->work->detach(task->work_data, task->era == ERA_MODERN);
        log_debug("task %.24s… was created", task->id);
        reply_made(&origin, out.error, &result);
}

/* ---- results ---- */

static int keep(struct mcp_task *task, const char *bytes, size_t n)
{
        struct tasks *tasks = &task->principal->tasks;

        while (n > SMALL && tasks->bytes + n > TASKS_BYTES_MAX) {
                if (!make_room(tasks))
                        return -ENOSPC;
        }
        int r = buffer_append(&task->payload, bytes, n);
        tasks->bytes += task->payload.allocated;
        return r;
}

static int keep_error(struct mcp_task *task, int code, const char *message,
                      const struct buffer *data)
{
        _cleanup_buffer_ struct buffer error = BUFFER_INIT(TASK_RESULT_MAX);
        struct json_out out = {.to = &error};

        json_out_begin(&out, NULL, '{');
        json_out_int(&out, "code", code);
        json_out_text(&out, "message", message);
        if (data)
                json_out_raw(&out, "data", buffer_bytes(data), data->length);
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : keep(task, buffer_bytes(&error), error.length);
}

/* A CallToolResult may name its error at its end, as Cloister's do, or anywhere. */
static bool is_error(const struct buffer *result)
{
        static const char yes[] = "\"isError\":true}", no[] = "\"isError\":false}";
        _cleanup_json_ yyjson_doc *doc = NULL;
        const char *end = buffer_bytes(result) + result->length;

        if (result->length > sizeof(yes) && memcmp(end - strlen(yes), yes, strlen(yes)) == 0)
                return true;
        if (result->length > sizeof(no) && memcmp(end - strlen(no), no, strlen(no)) == 0)
                return false;
        return json_parse(buffer_bytes(result), result->length, &doc, NULL) >= 0 &&
               yyjson_is_true(yyjson_obj_get(yyjson_doc_get_root(doc), "isError"));
}

/* The client has not got the task: the reply becomes the one to its request. */
static bool pass_on(struct reply *reply)
{
        struct mcp_task *task = reply->task;

        mcp_sink_unref(reply->sink);
        reply->sink = task->origin.sink;
        reply->batch = task->origin.batch;
        reply->operation = task->origin.operation;
        reply->task = NULL;
        task->origin.sink = NULL;
        task->reply = NULL;
        task_free(task);
        return false;
}

static bool take_result(struct reply *reply, const struct buffer *result)
{
        struct mcp_task *task = reply->task;

        /* A question is not a result: the task begins once its answers are there. */
        if (!task->announced && task->required && !reply->input_required &&
            !tasks_are_full(&task->principal->tasks))
                task_announce(task);
        if (!task->announced)
                return pass_on(reply);
        reply->task = NULL;
        task->is_error = is_error(result);
        bool kept = keep(task, buffer_bytes(result), result->length) >= 0;
        if (!kept)
                keep_error(
                        task, JSONRPC_INTERNAL_ERROR,
                        "the result was not kept: it is too large, or results that were not read "
                        "take all the room",
                        NULL);
        end(task, kept ? TASK_COMPLETED : TASK_FAILED);
        return true;
}

static bool take_error(struct reply *reply, int code, const char *message,
                       const struct buffer *data)
{
        struct mcp_task *task = reply->task;

        if (!task->announced)
                return pass_on(reply);
        reply->task = NULL;
        if (keep_error(task, code, message, data) < 0)
                log_warning("the error of a task was not kept: out of memory");
        end(task, TASK_FAILED);
        return true;
}

static void leave(struct reply *reply)
{
        struct mcp_task *task = reply->task;

        reply->task = NULL;
        task->reply = NULL;
        if (task->announced)
                end(task, TASK_CANCELLED);
        else
                task_free(task);
}

static const struct reply_keeper keeper = {take_result, take_error, leave};

/* ---- the beginning ---- */

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        struct mcp_task *task = data;

        if (!task->announced && !tasks_are_full(&task->principal->tasks)) {
                task_announce(task);
        } else if (task->announced) {
                if (task->status == TASK_WORKING)
                        task_cancel(task);
                task_free(task);
        }
}

struct mcp_task *task_new(const struct mcp_request *request, uint64_t ttl_ms, struct reply *reply)
{
        struct mcp_peer *peer = request->peer;
        struct mcp_task *task = calloc(1, sizeof(*task));
        bool legacy = request->era == ERA_LEGACY;
        struct reply own = {};

        if (!task)
                return NULL;
        *task = (struct mcp_task){
                .server = peer->server,
                .principal = peer->principal,
                .peer = legacy ? peer : NULL,
                .era = request->era,
                .created_ms = now_ms(),
                .updated_ms = now_ms(),
                .born_us = clock_us(),
                .ttl_ms = ttl_ms,
                .timer = evtimer_new(peer->server->base, on_timer, task),
        };
        buffer_init(&task->payload, TASK_RESULT_MAX);
        node_mint(task->id);
        if (!task->timer || reply_init(&own, reply_id(reply),
                                       legacy ? peer->legacy.reply.sink : reply->sink, NULL) < 0) {
                reply_done(&own);
                if (task->timer)
                        event_free(task->timer);
                free(task);
                return NULL;
        }
        own.modern = reply->modern;
        own.task = task;
        own.keeper = &keeper;
        task->origin = *reply;
        *reply = own;
        return task;
}

void task_attach(struct reply *reply, const struct task_work *work, void *data)
{
        struct mcp_task *task = reply->task;

        task->reply = reply;
        task->work = work;
        task->work_data = data;
}

void task_asks(struct reply *reply)
{
        struct mcp_task *task = reply->task;

        task->updated_ms = now_ms();
        subscriptions_task_changed(task->server, task->principal, task);
}

void tasks_drop_peer(struct mcp_peer *peer)
{
        struct tasks *tasks = &peer->principal->tasks;
        struct mcp_task *task;

        if (tasks->n == 0)
                return;
        TAILQ_FOREACH (task, &tasks->list, link) {
                struct task_waiter **at = &task->waiters;

                while (*at) {
                        if ((*at)->peer == peer)
                                drop_waiter(tasks, at);
                        else
                                at = &(*at)->next;
                }
                if (task->peer != peer)
                        continue;
                task->peer = NULL;
                if (task->work)
                        task->work->detach(task->work_data, true);
        }
}

/* ---- requests about a task ---- */

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
                task_put(&out, task, ERA_LEGACY, NULL);
        } else {
                task->read |= task->status != TASK_WORKING;
                if (task->read)
                        set_unread(task, false);
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
                answer_result(task, reply);
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
                task_put(&out, task, ERA_LEGACY, NULL);
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
                task_put(&out, task, ERA_LEGACY, NULL);
        json_out_end(&out, '}');
        reply_made(reply, out.error, &result);
}

/* ---- tasks/result that waits ---- */

/* The task continues: only tasks/cancel cancels it. */
bool tasks_wait_is_pending(const struct mcp_peer *peer, yyjson_val *id, bool cancels)
{
        struct tasks *tasks = &peer->principal->tasks;
        struct mcp_task *task;

        if (tasks->n_waiting == 0)
                return false;
        TAILQ_FOREACH (task, &tasks->list, link) {
                for (struct task_waiter **at = &task->waiters; *at; at = &(*at)->next) {
                        if ((*at)->peer != peer || !jsonrpc_id_equals(reply_id(&(*at)->reply), id))
                                continue;
                        if (cancels)
                                drop_waiter(tasks, at);
                        return true;
                }
        }
        return false;
}
