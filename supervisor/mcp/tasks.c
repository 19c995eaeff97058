/* The life of tasks. */
#include "supervisor/mcp/tasks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "supervisor/mcp/result.h"
#include "supervisor/mcp/tasks-internal.h"

enum { SMALL = 1024 }; /* bytes of an error that is always kept */

static const char too_many[] =
        "too many tasks are kept: read their results, or wait until their time is over";

static int64_t now_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool is_working(const struct mcp_task *task)
{
        return task->status == TASK_WORKING;
}

/* ---- the end ---- */

static void drop_payload(struct mcp_task *task)
{
        task->principal->tasks.bytes -= task->payload.allocated;
        buffer_done(&task->payload);
}

void task_free(struct mcp_task *task)
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
        drop_payload(task);
        while (task->waiters) {
                struct task_waiter *waiter = task->waiters;
                task->waiters = waiter->next;
                tasks->n_waiting--;
                mcp_answer_error(task->server, &waiter->reply, JSONRPC_INVALID_PARAMS,
                                 "the task's time to live is over");
                free(waiter);
        }
        reply_done(&task->origin);
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

/* Tells those that wait for the end, or want to know of it. */
static void tell_end(struct mcp_task *task)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(RESULT_MAX);
        struct tasks *tasks = &task->principal->tasks;

        while (task->waiters) {
                struct task_waiter *waiter = task->waiters;
                task->waiters = waiter->next;
                tasks->n_waiting--;
                task_answer_result(task, &waiter->reply);
                free(waiter);
        }
        if (task->peer && task_append_legacy(task, &params) >= 0)
                mcp_notify(task->peer->legacy.reply.sink, "notifications/tasks/status", &params);
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
        log_debug("task %.8s… has ended", task->id);
        tell_end(task);
}

void task_cancel(struct mcp_task *task)
{
        const struct task_work *work = task->work;
        void *data = task->work_data;

        end(task, TASK_CANCELLED);
        if (work)
                work->cancel(data);
}

/* ---- the client is told ---- */

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

static void set_timer(struct mcp_task *task, uint64_t ms)
{
        struct timeval t = clock_timeval_ms(ms);

        evtimer_add(task->timer, &t);
}

static bool is_full(struct tasks *tasks)
{
        return tasks->n >= TASKS_MAX && !make_room(tasks);
}

static int append_created(const struct mcp_task *task, struct buffer *to)
{
        int r;

        if (task->era == ERA_MODERN) {
                r = buffer_append(to, "{", 1);
                if (r >= 0)
                        r = task_append_modern(task, to);
        } else {
                r = buffer_append_text(to, "{\"task\":");
                if (r >= 0)
                        r = task_append_legacy(task, to);
        }
        return r < 0 ? r : buffer_append(to, "}", 1);
}

/* Answers the request with the task, which goes on without it. */
static void announce(struct mcp_task *task)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        struct tasks *tasks = &task->principal->tasks;
        struct reply origin = task->origin;

        task->origin = (struct reply){};
        task->announced = true;
        task->serial = ++tasks->serial;
        if (tasks->n++ == 0)
                TAILQ_INIT(&tasks->list);
        TAILQ_INSERT_HEAD(&tasks->list, task, link);
        uint64_t age = (clock_us() - task->born_us) / 1000;
        set_timer(task, task->ttl_ms > age ? task->ttl_ms - age : 0);
        origin.is_task = true;
        int r = append_created(task, &result);
        if (task->work)
                task->work->detach(task->work_data, task->era == ERA_MODERN);
        log_debug("task %.8s… was created", task->id);
        mcp_answer_made(task->server, &origin, r, &result);
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

        int r = buffer_printf(&error, "{\"code\":%d,\"message\":", code);
        if (r >= 0)
                r = json_append_string(&error, message, strlen(message));
        if (r >= 0 && data)
                r = buffer_append_text(&error, ",\"data\":");
        if (r >= 0 && data)
                r = buffer_append(&error, buffer_bytes(data), data->length);
        if (r >= 0)
                r = buffer_append(&error, "}", 1);
        return r < 0 ? r : keep(task, buffer_bytes(&error), error.length);
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

/* The client knows of no task: the reply becomes the one to its request. */
static bool pass_on(struct reply *reply)
{
        struct mcp_task *task = reply->task;

        mcp_sink_unref(reply->sink);
        reply->sink = task->origin.sink;
        reply->batch = task->origin.batch;
        reply->task = NULL;
        task->origin.sink = NULL;
        task->reply = NULL;
        task_free(task);
        return false;
}

bool task_take_result(struct reply *reply, const struct buffer *result)
{
        struct mcp_task *task = reply->task;

        /* A question is no result: the task begins once its answers are there. */
        if (!task->announced && task->required && !reply->input_required &&
            !is_full(&task->principal->tasks))
                announce(task);
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

bool task_take_error(struct reply *reply, int code, const char *message, const struct buffer *data)
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

void task_reply_done(struct reply *reply)
{
        struct mcp_task *task = reply->task;

        reply->task = NULL;
        task->reply = NULL;
        if (task->announced)
                end(task, TASK_CANCELLED);
        else
                task_free(task);
}

/* ---- the beginning ---- */

static void expire(struct mcp_task *task)
{
        if (is_working(task))
                task_cancel(task);
        task_free(task);
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        struct mcp_task *task = data;

        if (task->announced)
                expire(task);
        else if (!is_full(&task->principal->tasks))
                announce(task);
}

/* Takes the reply, and gives the call another one in its place. NULL: out of memory, and the reply is as
 * before. */
static struct mcp_task *task_new(const struct mcp_request *request, uint64_t ttl_ms,
                                 struct reply *reply)
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
        unguessable(task->id);
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

const char *task_id(const struct reply *reply)
{
        return reply->task ? reply->task->id : NULL;
}

bool task_is_announced(const struct reply *reply)
{
        return reply->task && reply->task->announced;
}

void task_asks(struct reply *reply)
{
        struct mcp_task *task = reply->task;

        task->updated_ms = now_ms();
        subscriptions_task_changed(task->server, task->principal, task);
}

bool tasks_declared(const struct mcp_request *request)
{
        yyjson_val *capabilities = yyjson_obj_get(yyjson_obj_get(request->params, "_meta"),
                                                  META_CAPABILITIES);

        return yyjson_is_obj(
                yyjson_obj_get(yyjson_obj_get(capabilities, "extensions"), TASKS_EXTENSION));
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

/* The client asks for a task: it is told of it at once, unless the call is answered at once. */
static void call_asked(struct mcp_server *server, const struct mcp_request *request,
                       yyjson_val *asked, struct reply *reply)
{
        uint64_t ttl_ms = TASK_TTL_MS + server->config->cell_timeout_max_ms;
        const char *why = read_ttl(asked, &ttl_ms);
        bool gone = false;

        if (why) {
                mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS, why);
                return;
        }
        if (is_full(&request->peer->principal->tasks)) {
                mcp_answer_error(server, reply, JSONRPC_INTERNAL_ERROR, too_many);
                return;
        }
        struct mcp_task *task = task_new(request, ttl_ms, reply);
        if (!task) {
                mcp_answer_error(server, reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
                return;
        }
        task->gone = &gone;
        mcp_call_start(server, request, reply);
        if (gone)
                return;
        task->gone = NULL;
        announce(task);
}

/* run_python can be a task, as what is unknown could. */
static enum config_task_support support_of(const struct mcp_server *server,
                                           const struct mcp_request *request)
{
        const char *name = json_string(request->params, "name", NULL);
        const struct config_published *tool = name ? published_find(server,
                                                                    request->peer->principal,
                                                                    PUBLISHED_TOOL, name)
                                                   : NULL;

        return tool ? tool->task_support : TASK_SUPPORT_OPTIONAL;
}

/* The client decides. */
static void call_legacy(struct mcp_server *server, const struct mcp_request *request,
                        struct reply *reply)
{
        enum config_task_support support = support_of(server, request);
        yyjson_val *asked = request->peer->version >= MCP_2025_11_25
                                    ? yyjson_obj_get(request->params, "task")
                                    : NULL;

        if (asked && support == TASK_SUPPORT_FORBIDDEN)
                mcp_answer_error(
                        server, reply, JSONRPC_METHOD_NOT_FOUND,
                        "the tool cannot be called as a task: call it without params.task");
        else if (!asked && support == TASK_SUPPORT_REQUIRED)
                mcp_answer_error(
                        server, reply, JSONRPC_METHOD_NOT_FOUND,
                        "the tool can only be called as a task: with params.task, by a client of 2025-11-25 or later");
        else if (asked)
                call_asked(server, request, asked, reply);
        else
                mcp_call_start(server, request, reply);
}

/* The server decides, where the client declares the extension. */
static void call_modern(struct mcp_server *server, const struct mcp_request *request,
                        struct reply *reply)
{
        enum config_task_support support = support_of(server, request);
        bool required = support == TASK_SUPPORT_REQUIRED, declared = tasks_declared(request);
        struct mcp_task *task = NULL;

        if (required && !declared) {
                tasks_answer_undeclared(server, reply);
                return;
        }
        if (required && is_full(&request->peer->principal->tasks)) {
                mcp_answer_error(server, reply, JSONRPC_INTERNAL_ERROR, too_many);
                return;
        }
        if (declared && support != TASK_SUPPORT_FORBIDDEN)
                task = task_new(request, TASK_TTL_MS + server->config->cell_timeout_max_ms, reply);
        if (required && !task) {
                mcp_answer_error(server, reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
                return;
        }
        if (task) {
                task->required = required;
                set_timer(task, TASK_AFTER_MS);
        }
        mcp_call_start(server, request, reply);
}

void tasks_call(struct mcp_server *server, const struct mcp_request *request, struct reply *reply)
{
        if (request->era == ERA_LEGACY)
                call_legacy(server, request, reply);
        else
                call_modern(server, request, reply);
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
                        struct task_waiter *waiter = *at;
                        if (waiter->peer != peer) {
                                at = &waiter->next;
                                continue;
                        }
                        *at = waiter->next;
                        tasks->n_waiting--;
                        mcp_answer_nothing(task->server, &waiter->reply);
                        reply_done(&waiter->reply);
                        free(waiter);
                }
                if (task->peer != peer)
                        continue;
                task->peer = NULL;
                if (task->work)
                        task->work->detach(task->work_data, true);
        }
}
