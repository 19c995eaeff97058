/*
 * One call of a tool.
 *
 * Theory of operation. A call goes from state to state by events, and the state says in which list
 * it is: the calls of its server that wait, or were sent, or the outbox.
 *
 *     state      QUEUED    SENT   ANSWERED   FAILED     TIMED_OUT           DROPPED        DELIVERED
 *     new        waiting   sent   -          finished   -                   -              -
 *     waiting    -         sent   -          finished   finished            freed          -
 *     sent       -         -      finished   finished   cancel, finished    cancel, freed  -
 *     finished   -         -      -          -          -                   freed          delivered
 *
 * ABANDONED is as TIMED_OUT, of a sent call; UNANSWERED as ANSWERED. Cancel: the server is sent
 * notifications/cancelled, or tasks/cancel; what it answers nevertheless is ignored, and the call is owed
 * until then (books.h). A request is never sent twice, unless the server asks for it (answer.c): the call
 * stays sent, with the id of the newest request. Between two requests it has the id 0: it waits for the
 * next look at its task, or for the client.
 */
#include "supervisor/hub/call/call.h"
#include "supervisor/service/metrics.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json-out.h"
#include "rpc/lines.h"

/* The timer of a task belongs to answer.c, which initialises it. */
static void stop_poll(struct hub_call *call)
{
        if (event_initialized(&call->poll))
                event_del(&call->poll);
}

static void call_free(struct hub_call *call)
{
        event_del(&call->deadline);
        stop_poll(call);
        questions_withdraw_all(&call->questions);
        background_free_json(call->answer.doc);
        free(call->text);
        if (call->memfd >= 0)
                close(call->memfd);
        call_params_done(&call->params);
        buffer_done(&call->answers);
        buffer_done(&call->server_state);
        buffer_done(&call->asked_keys);
        free(call->task);
        free(call->tool);
        free(call);
}

/* ---- states and events ---- */

struct book_principal hub_caller_principal(const struct hub_caller *caller, void *data)
{
        struct book_principal of = {.name = ""};

        if (caller->principal)
                of.name = caller->principal(data, &of.n);
        return of;
}

static void owe(struct hub_call *call, int64_t id, enum book_kind kind)
{
        books_owe(&call->calls->books, hub_caller_principal(call->caller, call->data), id, kind,
                  call->since);
}

static void cancel(struct hub_call *call, const char *reason)
{
        struct hub_calls *calls = call->calls;
        bool is_modern = calls->host->is_modern(calls->data);
        int64_t id = calls->host->cancel(calls->data, call->id, call->task, reason);

        if (call->task && !call->task_ended)
                owe(call, id, BOOK_TASK);
        /* The server may create the task before it reads the cancellation. */
        else if (!call->task && call->id != 0 && id == 0)
                owe(call, call->id, call->is_task || is_modern ? BOOK_MAKES_TASK : BOOK_CALL);
}

/* An empty entry: the event cannot happen in the state. */
static const struct transition {
        enum call_state next;
        const char *
                cancelled; /* why the request is cancelled, before the call leaves its list; or NULL */
} transitions[CALL_STATE_MAX][EVENT_MAX] = {
        [CALL_NEW][EVENT_QUEUED] = {CALL_WAITING},
        [CALL_NEW][EVENT_SENT] = {CALL_SENT},
        [CALL_NEW][EVENT_FAILED] = {CALL_FINISHED},

        [CALL_WAITING][EVENT_SENT] = {CALL_SENT},
        [CALL_WAITING][EVENT_FAILED] = {CALL_FINISHED},
        [CALL_WAITING][EVENT_TIMED_OUT] = {CALL_FINISHED},
        [CALL_WAITING][EVENT_DROPPED] = {CALL_FREED},

        [CALL_SENT][EVENT_ANSWERED] = {CALL_FINISHED},
        [CALL_SENT][EVENT_UNANSWERED] = {CALL_FINISHED},
        [CALL_SENT][EVENT_FAILED] = {CALL_FINISHED},
        [CALL_SENT][EVENT_TIMED_OUT] = {CALL_FINISHED, "timeout"},
        [CALL_SENT][EVENT_ABANDONED] = {CALL_FINISHED, "the client cannot be asked"},
        [CALL_SENT][EVENT_DROPPED] = {CALL_FREED, "the result is not needed any more"},

        [CALL_FINISHED][EVENT_DROPPED] = {CALL_FREED},
        [CALL_FINISHED][EVENT_DELIVERED] = {CALL_DELIVERED},
};

static void set_deadline(struct hub_call *call)
{
        struct timeval in = clock_timeval_ms(call->timeout_ms);

        if (evtimer_pending(&call->deadline, NULL) || call->has_left)
                return;
        call->left_us = call->timeout_ms * UINT64_C(1000);
        call->has_left = call->n_holds > 0;
        if (call->has_left)
                return;
        call->due_us = clock_us() + call->left_us;
        evtimer_add(&call->deadline, &in);
}

void hub_call_hold(struct hub_call *call)
{
        uint64_t now = clock_us();

        if (call->n_holds++ > 0)
                return;
        call->has_left = evtimer_pending(&call->deadline, NULL);
        call->left_us = call->due_us > now ? call->due_us - now : 0;
        event_del(&call->deadline);
}

/* One that has ended meanwhile has no deadline any more. */
void hub_call_release(struct hub_call *call)
{
        struct timeval in = clock_timeval_ms(call->left_us / 1000);

        if (--call->n_holds > 0 || !call->has_left || call->state >= CALL_FINISHED)
                return;
        call->has_left = false;
        call->due_us = clock_us() + call->left_us;
        evtimer_add(&call->deadline, &in);
}

void hub_call_stand_still(struct hub_call *call, bool stands_still)
{
        if (stands_still)
                hub_call_hold(call);
        else
                hub_call_release(call);
}

/* A server of MCP 2026-07-28 may have to be sent the arguments again. */
static void keep_params(struct hub_call *call)
{
        struct hub_calls *calls = call->calls;

        if (!calls->host->is_modern(calls->data) ||
            calls->kept_bytes + call_params_length(&call->params) > CALL_KEPT_BYTES_MAX)
                call_params_done(&call->params);
        calls->kept_bytes += call_params_length(&call->params);
}

static void leave(struct hub_call *call)
{
        switch (call->state) {
        case CALL_WAITING:
                TAILQ_REMOVE(&call->calls->waiting, call, link);
                call->calls->waiting_bytes -= call_params_length(&call->params);
                call->calls->count--;
                break;
        case CALL_SENT:
                questions_withdraw_all(&call->questions);
                stop_poll(call);
                TAILQ_REMOVE(bucket(call->calls, call->id), call, link);
                call->calls->kept_bytes -= call_params_length(&call->params);
                call->calls->n_tasks -= call->task != NULL;
                call->calls->count--;
                call->calls->used_us = clock_us();
                if (call->calls->count == 0 && !LIST_EMPTY(&call->calls->books.owed))
                        call->calls->host->refused(call->calls->data);
                break;
        case CALL_FINISHED:
                TAILQ_REMOVE(&call->outbox->calls, call, link);
                break;
        default:
                break;
        }
}

static void enter(struct hub_call *call)
{
        switch (call->state) {
        case CALL_WAITING:
                TAILQ_INSERT_TAIL(&call->calls->waiting, call, link);
                call->calls->waiting_bytes += call_params_length(&call->params);
                call->calls->count++;
                if (call->limits_all)
                        set_deadline(call);
                break;
        case CALL_SENT:
                keep_params(call);
                TAILQ_INSERT_TAIL(bucket(call->calls, call->id), call, link);
                call->calls->count++;
                call->result.sent = true;
                set_deadline(call);
                break;
        case CALL_FINISHED:
                event_del(&call->deadline);
                call_params_done(&call->params);
                call->result.duration_us = clock_us() - call->since;
                if (call->result.sent)
                        metrics_observe(METRIC_UPSTREAM_CALL,
                                        (double)call->result.duration_us / 1e6,
                                        call->calls->host->name(call->calls->data));
                call->calls = NULL;
                TAILQ_INSERT_TAIL(&call->outbox->calls, call, link);
                event_active(call->outbox->due, EV_TIMEOUT, 0);
                break;
        case CALL_FREED:
                call_free(call);
                break;
        default:
                break;
        }
}

void hub_call_step(struct hub_call *call, enum call_event event)
{
        const struct transition *t = &transitions[call->state][event];

        assert(t->next != CALL_NEW);
        if (t->cancelled)
                cancel(call, t->cancelled);
        else if (event == EVENT_UNANSWERED ||
                 (event == EVENT_ANSWERED && call->task && !call->task_ended))
                owe(call, call->task ? 0 : call->id, BOOK_CALL);
        leave(call);
        call->state = t->next;
        enter(call);
}

/* ---- what happens to a call ---- */

void hub_call_finish(struct hub_call *call, enum call_event event, enum hub_outcome outcome,
                     const char *format, ...)
{
        va_list args;

        va_start(args, format);
        vsnprintf(call->message, sizeof(call->message), format, args);
        va_end(args);
        call->result.outcome = outcome;
        call->result.message = call->message;
        hub_call_step(call, event);
}

const char *hub_call_server(const struct hub_call *call)
{
        return call->calls->host->name(call->calls->data);
}

void hub_call_answer_invalid(struct hub_call *call, const char *why)
{
        hub_call_finish(call, EVENT_ANSWERED, HUB_PROTOCOL,
                        "server \"%s\" gave no valid answer: %s", hub_call_server(call), why);
}

void hub_call_answer_none(struct hub_call *call, const char *why)
{
        /* The end of a response of MCP 2026-07-28 ends the call. */
        enum call_event event = call->calls->host->is_modern(call->calls->data) ? EVENT_ANSWERED
                                                                                : EVENT_UNANSWERED;

        hub_call_finish(call, event, HUB_UNAVAILABLE, "server \"%s\": %s", hub_call_server(call),
                        why);
}

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
        struct hub_call *call = data;

        hub_call_finish(call, EVENT_TIMED_OUT, HUB_TIMEOUT, "server \"%s\" did not %s within %g s",
                        hub_call_server(call), call->state == CALL_SENT ? "answer" : "start",
                        call->timeout_ms / 1000.0);
}

void hub_call_drop(struct hub_call *call)
{
        hub_call_step(call, EVENT_DROPPED);
}

bool hub_call_is_sent(const struct hub_call *call)
{
        return call->result.sent;
}

/* ---- the outbox ---- */

void call_outbox_done(struct call_outbox *outbox)
{
        struct hub_call *call;

        while ((call = TAILQ_FIRST(&outbox->calls)))
                hub_call_step(call, EVENT_DROPPED);
}

void call_outbox_deliver(struct call_outbox *outbox)
{
        struct hub_call *call = TAILQ_FIRST(&outbox->calls);

        /* In no list from now on: the callback may free the outbox with all calls in it. */
        hub_call_step(call, EVENT_DELIVERED);
        call->caller->done(call->data, &call->result);
        call_free(call);
}

/* ---- the calls of a server ---- */

void hub_calls_init(struct hub_calls *calls, const struct hub_calls_host *host, void *data)
{
        *calls = (struct hub_calls){.host = host, .data = data};
        TAILQ_INIT(&calls->waiting);
        for (size_t i = 0; i < BUCKETS; i++)
                TAILQ_INIT(&calls->sent[i]);
}

static void free_all(struct call_list *list)
{
        struct hub_call *call;

        while ((call = TAILQ_FIRST(list))) {
                TAILQ_REMOVE(list, call, link);
                call_free(call);
        }
}

void hub_calls_done(struct hub_calls *calls)
{
        free_all(&calls->waiting);
        for (size_t i = 0; i < BUCKETS; i++)
                free_all(&calls->sent[i]);
        books_clear(&calls->books);
}

static void fail_to_send(struct hub_call *call, enum call_event event, const char *name, int r)
{
        if (r == -EMSGSIZE)
                hub_call_finish(
                        call, event, HUB_UNAVAILABLE,
                        "server \"%s\" does not read its input: too many requests are queued",
                        name);
        else
                hub_call_finish(call, event, HUB_UNAVAILABLE, "cannot send to server \"%s\": %s",
                                name, strerrordesc_np(-r));
}

/* Adds "task" to the params ("Tasks", 2025-11-25). */
static int make_task(struct hub_calls *calls, struct hub_call *call)
{
        static const char member[] = ",\"task\":{}}";
        struct call_params *params = &call->params;
        size_t before = call_params_length(params);
        int r = 0;

        call->is_task = true;
        if (params->text) {
                params->after = member;
        } else {
                params->bytes.length--; /* the brace */
                r = buffer_append_text(&params->bytes, member);
        }
        if (call->state == CALL_WAITING)
                calls->waiting_bytes += call_params_length(params) - before;
        return r;
}

bool hub_call_client(const struct hub_call *call, struct hub_client *ret)
{
        *ret = (struct hub_client){};
        return call->caller->client && call->caller->client(call->data, ret);
}

static int64_t send_params(struct hub_calls *calls, const struct hub_call *call, const char *method,
                           const struct call_params *params)
{
        struct book_principal principal = hub_caller_principal(call->caller, call->data);
        struct hub_client client;

        (void)hub_call_client(call, &client);
        client.trace = call->caller->trace ? call->caller->trace(call->data) : NULL;
        /* FNV-1a */
        client.principal = principal.n > 0 ? UINT64_C(14695981039346656037) : 0;
        for (size_t i = 0; i < principal.n; i++)
                client.principal = (client.principal ^ (unsigned char)principal.name[i]) *
                                   UINT64_C(1099511628211);
        return calls->host->send(calls->data, method, &client, params);
}

static void set_id(struct hub_call *call, int64_t id)
{
        TAILQ_REMOVE(bucket(call->calls, call->id), call, link);
        call->id = id;
        TAILQ_INSERT_TAIL(bucket(call->calls, id), call, link);
}

void hub_call_wait(struct hub_call *call)
{
        set_id(call, 0);
}

void hub_call_go_on(struct hub_call *call, const char *method, const struct call_params *params)
{
        int64_t r = send_params(call->calls, call, method, params);

        if (r < 0)
                fail_to_send(call, EVENT_ANSWERED, hub_call_server(call), (int)r);
        else
                set_id(call, r);
}

/* Returns whether the server has the tool or method. If not, the call fails. */
static bool is_known(struct hub_calls *calls, struct hub_call *call, const char *name)
{
        const struct hub_calls_host *host = calls->host;
        bool is_tool = call->tool;

        if (is_tool ? host->has_tool(calls->data, call->tool)
                    : host->has_method(calls->data, call->method))
                return true;
        if (is_tool)
                hub_call_finish(call, EVENT_FAILED, HUB_NOT_FOUND,
                                "server \"%s\" has no tool \"%.200s\"", name, call->tool);
        else
                hub_call_finish(call, EVENT_FAILED, HUB_NOT_FOUND, "server \"%s\" has no %.*s",
                                name, (int)strcspn(call->method, "/"), call->method);
        return false;
}

void hub_calls_send(struct hub_calls *calls, struct hub_call *call)
{
        const char *name = calls->host->name(calls->data);
        int64_t r = 0;

        if (!is_known(calls, call, name))
                return;
        if (call->tool && calls->host->needs_task(calls->data, call->tool))
                r = make_task(calls, call);
        if (r >= 0)
                r = send_params(calls, call, call->method, &call->params);
        if (r < 0) {
                fail_to_send(call, EVENT_FAILED, name, (int)r);
        } else {
                calls->books.is_private |= hub_caller_principal(call->caller, call->data).n > 0;
                call->calls = calls;
                call->id = call->token = r;
                hub_call_step(call, EVENT_SENT);
        }
}

bool hub_calls_queue(struct hub_calls *calls, struct hub_call *call)
{
        size_t bytes = calls->waiting_bytes;

        if (bytes > 0 && bytes + call_params_length(&call->params) > CALL_WAITING_BYTES_MAX) {
                hub_call_finish(
                        call, EVENT_FAILED, HUB_UNAVAILABLE,
                        "server \"%s\" is starting, and calls of %zu MiB wait for it already",
                        calls->host->name(calls->data), bytes >> 20);
                return false;
        }
        call->calls = calls;
        hub_call_step(call, EVENT_QUEUED);
        return true;
}

void hub_calls_send_waiting(struct hub_calls *calls)
{
        struct hub_call *call;

        /* Each leaves the list, sent or failed. */
        while ((call = TAILQ_FIRST(&calls->waiting)))
                hub_calls_send(calls, call);
}

static int write_params(struct call_params *params, const char *tool, yyjson_val *arguments,
                        struct shared_text *text)
{
        struct json_out out = {.to = &params->bytes};

        if (tool) {
                json_out_begin(&out, NULL, '{');
                json_out_text(&out, "name", tool);
                json_out_key(&out, "arguments", strlen("arguments"));
        }
        if (tool && text) {
                params->text = shared_text_ref(text);
                params->after = "}";
                return out.error;
        }
        if (arguments)
                json_out_value(&out, NULL, arguments);
        else
                json_out_raw(&out, NULL, "{}", 2);
        if (tool)
                json_out_end(&out, '}');
        return out.error;
}

int hub_call_new(struct event_base *base, struct call_outbox *outbox,
                 const struct hub_request *request, uint32_t server_timeout_ms,
                 struct hub_call **ret, struct error *err)
{
        struct hub_call *call = calloc(1, sizeof(*call));
        uint32_t own = server_timeout_ms ? server_timeout_ms : CALL_TIMEOUT_MS;

        if (!call)
                return error_errno(err, ENOMEM, "call");
        call->memfd = -1;
        call->outbox = outbox;
        call->since = clock_us();
        call->caller = request->caller;
        call->data = request->data;
        call->method = request->method ? request->method : "tools/call";
        /* The server's own timeout is for the answer; its start has another. */
        call->timeout_ms = request->timeout_ms ? request->timeout_ms : own;
        call->limits_all = request->timeout_ms != 0;
        call->questions = (struct questions){.base = base, .data = call};
        TAILQ_INIT(&call->questions.open);
        buffer_init(&call->params.bytes, LINES_MAX);
        buffer_init(&call->answers, LINES_MAX);
        buffer_init(&call->server_state, LINES_MAX);
        buffer_init(&call->asked_keys, CALL_ASKS_MAX * (CALL_ASK_KEY_MAX + 1));
        evtimer_assign(&call->deadline, base, on_deadline, call);
        call->tool = request->tool ? strdup(request->tool) : NULL;
        int r = request->tool && !call->tool ? -ENOMEM
                                             : write_params(&call->params, request->tool,
                                                            request->arguments, request->text);
        if (r < 0) {
                call_free(call);
                return error_errno(err, -r, "write the arguments of %.100s",
                                   request->tool ? request->tool : request->method);
        }
        *ret = call;
        return 0;
}

static void fail_all(struct call_list *list, const char *message)
{
        struct hub_call *call;

        while ((call = TAILQ_FIRST(list)))
                hub_call_finish(call, EVENT_FAILED, HUB_UNAVAILABLE, "%s", message);
}

void hub_calls_fail(struct hub_calls *calls, bool waiting_too, const char *message)
{
        for (size_t i = 0; i < BUCKETS; i++)
                fail_all(&calls->sent[i], message);
        if (waiting_too)
                fail_all(&calls->waiting, message);
}

/* ---- the call that a message of the server is about ---- */

struct hub_call *hub_calls_by_id(struct hub_calls *calls, int64_t n)
{
        struct hub_call *call;

        if (n <= 0)
                return NULL;
        TAILQ_FOREACH (call, bucket(calls, n), link) {
                if (call->id == n)
                        return call;
        }
        return NULL;
}

struct hub_call *hub_calls_find(struct hub_calls *calls, yyjson_val *id)
{
        int64_t n;

        return json_int64(id, &n) < 0 ? NULL : hub_calls_by_id(calls, n);
}

/* Whether a principal other than the call's has a call on the books. */
static bool have_other(struct hub_calls *calls, const struct hub_call *call, bool refuse)
{
        return books_have_other(&calls->books, hub_caller_principal(call->caller, call->data),
                                refuse);
}

/* The one call that was sent; NULL when there are none or several, or another principal has one on the books. */
static struct hub_call *find_only(struct hub_calls *calls)
{
        struct hub_call *only = NULL;

        if (calls->count != 1)
                return NULL;
        for (size_t i = 0; i < BUCKETS && !only; i++)
                only = TAILQ_FIRST(&calls->sent[i]);
        return only && !have_other(calls, only, false) ? only : NULL;
}

struct hub_call *hub_calls_guess(struct hub_calls *calls, const char *line, size_t n)
{
        int64_t id;

        if (calls->count == 0 || n == 0 || line[0] != '{')
                return NULL;
        if (jsonrpc_guess_id(line, n, &id))
                return hub_calls_by_id(calls, id);
        /* Many servers write the id last: a line that was cut does not have it. */
        return n == LINES_MAX ? find_only(calls) : NULL;
}

/* ---- progress and messages that name no request ---- */

/* A task keeps the token of the request that created it. */
static struct hub_call *find_by_token(struct hub_calls *calls, int64_t token)
{
        struct hub_call *call = hub_calls_by_id(calls, token);

        for (size_t i = 0; !call && calls->n_tasks > 0 && i < BUCKETS; i++) {
                TAILQ_FOREACH (call, &calls->sent[i], link) {
                        if (call->token == token)
                                return call;
                }
        }
        return call && call->token == token ? call : NULL;
}

bool hub_calls_progress(struct hub_calls *calls, yyjson_val *params)
{
        struct hub_progress progress = {};
        int64_t token;

        if (json_int64(yyjson_obj_get(params, "progressToken"), &token) < 0)
                return false;
        struct hub_call *call = find_by_token(calls, token);
        if (!call || json_double(yyjson_obj_get(params, "progress"), &progress.value) < 0)
                return call;
        if (json_double(yyjson_obj_get(params, "total"), &progress.total) < 0)
                progress.total = 0;
        progress.message = json_string(params, "message", &progress.length);
        if (call->caller->progress)
                call->caller->progress(call->data, &progress);
        return true;
}

int hub_call_append_task(struct buffer *params, yyjson_val *id)
{
        struct json_out out = {.to = params};

        if (!yyjson_is_str(id) || yyjson_get_len(id) > CALL_TASK_ID_MAX)
                return -EINVAL;
        json_out_begin(&out, NULL, '{');
        json_out_string(&out, "taskId", yyjson_get_str(id), yyjson_get_len(id));
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : buffer_append(params, "", 1);
}

static struct hub_call *find_task(struct hub_calls *calls, yyjson_val *id)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(8 * CALL_TASK_ID_MAX);
        struct hub_call *call;

        if (calls->n_tasks == 0 || hub_call_append_task(&params, id) < 0)
                return NULL;
        for (size_t i = 0; i < BUCKETS; i++) {
                TAILQ_FOREACH (call, &calls->sent[i], link) {
                        if (call->task && strcmp(call->task, buffer_bytes(&params)) == 0)
                                return call;
                }
        }
        return NULL;
}

/* Whether the clients of two calls are one. */
static bool are_of_one(const struct hub_call *a, const struct hub_call *b)
{
        struct hub_client first, second;

        return hub_call_client(a, &first) && hub_call_client(b, &second) && first.id == second.id;
}

struct hub_call *hub_calls_attribute(struct hub_calls *calls, yyjson_val *params, const char **why)
{
        yyjson_val *about = yyjson_obj_get(yyjson_obj_get(params, "_meta"),
                                           "io.modelcontextprotocol/related-task");
        yyjson_val *task = yyjson_obj_get(about, "taskId");
        struct hub_call *call, *found = NULL;

        *why = "no call of it is open";
        if (yyjson_is_str(task))
                return find_task(calls, task);
        for (size_t i = 0; i < BUCKETS; i++) {
                TAILQ_FOREACH (call, &calls->sent[i], link) {
                        if (found && !are_of_one(found, call)) {
                                *why = "calls of several clients are open, and the request names none of them";
                                return NULL;
                        }
                        if (!found || call->n_asked < found->n_asked)
                                found = call;
                }
        }
        if (found && have_other(calls, found, true)) {
                *why = "a call of another client has not been answered, and the request names no call";
                calls->host->refused(calls->data);
                return NULL;
        }
        return found;
}

void hub_calls_log(struct hub_calls *calls, yyjson_val *params)
{
        const char *why;
        struct hub_call *call = hub_calls_attribute(calls, params, &why);

        if (call && call->caller->log)
                call->caller->log(call->data, params);
}

void hub_calls_orphan(struct hub_calls *calls, int64_t id, yyjson_val *result)
{
        int64_t *awaited = books_answered(&calls->books, id, result);
        yyjson_val *name = yyjson_obj_get(book_task_of(result), "taskId");
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(8 * CALL_TASK_ID_MAX);

        if (awaited && hub_call_append_task(&params, name) >= 0)
                *awaited = calls->host->cancel(calls->data, 0, buffer_bytes(&params), "");
}
