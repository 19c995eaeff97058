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
 * Cancel: the server is sent notifications/cancelled; what it answers nevertheless is ignored. A
 * request is never sent twice, unless the server asks for it (call-answer.c): the call stays sent,
 * with the id of the newest request.
 */
#include "supervisor/hub/call.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "rpc/lines.h"
#include "supervisor/hub/call-internal.h"

static void call_free(struct hub_call *call)
{
        event_del(&call->deadline);
        background_free_json(call->answer.doc);
        free(call->text);
        if (call->memfd >= 0)
                close(call->memfd);
        buffer_done(&call->params);
        free(call->task);
        free(call->tool);
        free(call);
}

/* ---- states and events ---- */

static void cancel(struct hub_call *call, const char *reason)
{
        call->calls->host->cancel(call->calls->data, call->id, call->task, reason);
}

static void cancel_timed_out(struct hub_call *call)
{
        cancel(call, "timeout");
}

static void cancel_dropped(struct hub_call *call)
{
        cancel(call, "the result is not needed any more");
}

/* An empty entry: the event cannot happen in the state. */
static const struct transition {
        enum call_state next;
        void (*action)(struct hub_call *call); /* before the call leaves its list; may be NULL */
} transitions[CALL_STATE_MAX][EVENT_MAX] = {
        [CALL_NEW][EVENT_QUEUED] = {CALL_WAITING},
        [CALL_NEW][EVENT_SENT] = {CALL_SENT},
        [CALL_NEW][EVENT_FAILED] = {CALL_FINISHED},

        [CALL_WAITING][EVENT_SENT] = {CALL_SENT},
        [CALL_WAITING][EVENT_FAILED] = {CALL_FINISHED},
        [CALL_WAITING][EVENT_TIMED_OUT] = {CALL_FINISHED},
        [CALL_WAITING][EVENT_DROPPED] = {CALL_FREED},

        [CALL_SENT][EVENT_ANSWERED] = {CALL_FINISHED},
        [CALL_SENT][EVENT_FAILED] = {CALL_FINISHED},
        [CALL_SENT][EVENT_TIMED_OUT] = {CALL_FINISHED, cancel_timed_out},
        [CALL_SENT][EVENT_DROPPED] = {CALL_FREED, cancel_dropped},

        [CALL_FINISHED][EVENT_DROPPED] = {CALL_FREED},
        [CALL_FINISHED][EVENT_DELIVERED] = {CALL_DELIVERED},
};

static void set_deadline(struct hub_call *call)
{
        struct timeval in = clock_timeval_ms(call->timeout_ms);

        if (!evtimer_pending(&call->deadline, NULL))
                evtimer_add(&call->deadline, &in);
}

/* A server of MCP 2026-07-28 may have to be sent the arguments again. */
static void keep_params(struct hub_call *call)
{
        struct hub_calls *calls = call->calls;

        if (!calls->host->is_modern(calls->data) ||
            calls->kept_bytes + call->params.length > CALL_KEPT_BYTES_MAX)
                buffer_done(&call->params);
        calls->kept_bytes += call->params.length;
}

static struct call_list *bucket(struct hub_calls *calls, int64_t id)
{
        return &calls->sent[(uint64_t)id % BUCKETS];
}

static void leave(struct hub_call *call)
{
        switch (call->state) {
        case CALL_WAITING:
                TAILQ_REMOVE(&call->calls->waiting, call, link);
                call->calls->waiting_bytes -= call->params.length;
                call->calls->count--;
                break;
        case CALL_SENT:
                TAILQ_REMOVE(bucket(call->calls, call->id), call, link);
                call->calls->kept_bytes -= call->params.length;
                call->calls->count--;
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
                call->calls->waiting_bytes += call->params.length;
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
                buffer_done(&call->params);
                call->calls = NULL;
                call->result.duration_us = clock_us() - call->since;
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
        if (t->action)
                t->action(call);
        leave(call);
        call->state = t->next;
        enter(call);
}

/* ---- what happens to a call ---- */

static void set_outcome(struct hub_call *call, enum hub_outcome outcome, const char *format,
                        va_list args) __attribute__((format(printf, 3, 0)));

static void set_outcome(struct hub_call *call, enum hub_outcome outcome, const char *format,
                        va_list args)
{
        vsnprintf(call->message, sizeof(call->message), format, args);
        call->result.outcome = outcome;
        call->result.message = call->message;
}

void hub_call_finish(struct hub_call *call, enum call_event event, enum hub_outcome outcome,
                     const char *format, ...)
{
        va_list args;

        va_start(args, format);
        set_outcome(call, outcome, format, args);
        va_end(args);
        hub_call_step(call, event);
}

void hub_call_fail(struct hub_call *call, enum hub_outcome outcome, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        set_outcome(call, outcome, format, args);
        va_end(args);
        hub_call_step(call, EVENT_FAILED);
}

const char *hub_call_server(const struct hub_call *call)
{
        return call->calls->host->name(call->calls->data);
}

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
        struct hub_call *call = data;

        (void)fd;
        (void)what;
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

void call_outbox_init(struct call_outbox *outbox, struct event *due)
{
        TAILQ_INIT(&outbox->calls);
        outbox->due = due;
}

void call_outbox_done(struct call_outbox *outbox)
{
        struct hub_call *call;

        while ((call = TAILQ_FIRST(&outbox->calls)))
                hub_call_step(call, EVENT_DROPPED);
}

bool call_outbox_is_empty(const struct call_outbox *outbox)
{
        return TAILQ_EMPTY(&outbox->calls);
}

void call_outbox_deliver(struct call_outbox *outbox)
{
        struct hub_call *call = TAILQ_FIRST(&outbox->calls);

        /* In no list from now on: the callback may free the outbox with all calls in it. */
        hub_call_step(call, EVENT_DELIVERED);
        call->fn(call->data, &call->result);
        call_free(call);
}

/* ---- the calls of a server ---- */

struct hub_calls *hub_calls_new(const struct hub_calls_host *host, void *data)
{
        struct hub_calls *calls = calloc(1, sizeof(*calls));

        if (!calls)
                return NULL;
        calls->host = host;
        calls->data = data;
        TAILQ_INIT(&calls->waiting);
        for (size_t i = 0; i < BUCKETS; i++)
                TAILQ_INIT(&calls->sent[i]);
        return calls;
}

static void free_all(struct call_list *list)
{
        struct hub_call *call;

        while ((call = TAILQ_FIRST(list))) {
                TAILQ_REMOVE(list, call, link);
                call_free(call);
        }
}

struct hub_calls *hub_calls_free(struct hub_calls *calls)
{
        if (!calls)
                return NULL;
        free_all(&calls->waiting);
        for (size_t i = 0; i < BUCKETS; i++)
                free_all(&calls->sent[i]);
        free(calls);
        return NULL;
}

size_t hub_calls_count(const struct hub_calls *calls)
{
        return calls->count;
}

bool hub_calls_any_waiting(const struct hub_calls *calls)
{
        return !TAILQ_EMPTY(&calls->waiting);
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
        size_t before = call->params.length;

        call->is_task = true;
        call->params.length--; /* the brace */
        int r = buffer_append(&call->params, member, sizeof(member) - 1);
        if (call->state == CALL_WAITING)
                calls->waiting_bytes += call->params.length - before;
        return r;
}

void hub_call_go_on(struct hub_call *call, const char *method, const struct buffer *params)
{
        struct hub_calls *calls = call->calls;
        int64_t r = calls->host->send(calls->data, method, buffer_bytes(params), params->length);

        if (r < 0) {
                fail_to_send(call, EVENT_ANSWERED, hub_call_server(call), (int)r);
                return;
        }
        TAILQ_REMOVE(bucket(calls, call->id), call, link);
        call->id = r;
        TAILQ_INSERT_TAIL(bucket(calls, call->id), call, link);
}

void hub_calls_send(struct hub_calls *calls, struct hub_call *call)
{
        const char *name = calls->host->name(calls->data);

        if (!calls->host->has_tool(calls->data, call->tool)) {
                hub_call_fail(call, HUB_NOT_FOUND, "server \"%s\" has no tool \"%.200s\"", name,
                              call->tool);
                return;
        }
        int64_t r = calls->host->needs_task(calls->data, call->tool) ? make_task(calls, call) : 0;
        if (r >= 0)
                r = calls->host->send(calls->data, "tools/call", buffer_bytes(&call->params),
                                      call->params.length);
        if (r < 0) {
                fail_to_send(call, EVENT_FAILED, name, (int)r);
        } else {
                call->calls = calls;
                call->id = r;
                hub_call_step(call, EVENT_SENT);
        }
}

bool hub_calls_queue(struct hub_calls *calls, struct hub_call *call)
{
        size_t bytes = calls->waiting_bytes;

        if (bytes > 0 && bytes + call->params.length > CALL_WAITING_BYTES_MAX) {
                hub_call_fail(call, HUB_UNAVAILABLE,
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

static int write_params(struct buffer *b, const char *tool, yyjson_val *arguments)
{
        int r = buffer_append_text(b, "{\"name\":");

        if (r >= 0)
                r = json_append_string(b, tool, strlen(tool));
        if (r >= 0)
                r = buffer_append_text(b, ",\"arguments\":");
        if (r >= 0)
                r = arguments ? json_append(b, arguments) : buffer_append(b, "{}", 2);
        return r < 0 ? r : buffer_append(b, "}", 1);
}

int hub_call_new(struct event_base *base, struct call_outbox *outbox,
                 const struct call_request *request, struct hub_call **ret, struct error *err)
{
        struct hub_call *call = calloc(1, sizeof(*call));
        uint32_t own = request->server_timeout_ms ? request->server_timeout_ms : CALL_TIMEOUT_MS;

        if (!call)
                return error_errno(err, ENOMEM, "call");
        call->memfd = -1;
        call->outbox = outbox;
        call->since = clock_us();
        call->fn = request->fn;
        call->data = request->data;
        /* The server's own timeout is for the answer; its start has another. */
        call->timeout_ms = request->timeout_ms ? request->timeout_ms : own;
        call->limits_all = request->timeout_ms != 0;
        buffer_init(&call->params, LINES_MAX);
        evtimer_assign(&call->deadline, base, on_deadline, call);
        call->tool = strdup(request->tool);
        int r = call->tool ? write_params(&call->params, request->tool, request->arguments)
                           : -ENOMEM;
        if (r < 0) {
                call_free(call);
                return error_errno(err, -r, "write the arguments of %.100s", request->tool);
        }
        *ret = call;
        return 0;
}

static void fail_all(struct call_list *list, const char *message)
{
        struct hub_call *call;

        while ((call = TAILQ_FIRST(list)))
                hub_call_fail(call, HUB_UNAVAILABLE, "%s", message);
}

void hub_calls_fail_sent(struct hub_calls *calls, const char *message)
{
        for (size_t i = 0; i < BUCKETS; i++)
                fail_all(&calls->sent[i], message);
}

void hub_calls_fail_waiting(struct hub_calls *calls, const char *message)
{
        fail_all(&calls->waiting, message);
}

/* ---- answers ---- */

struct hub_call *hub_calls_by_id(struct hub_calls *calls, int64_t n)
{
        struct hub_call *call;

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

/* The one call that was sent; NULL when there are none or several. */
static struct hub_call *find_only(struct hub_calls *calls)
{
        struct hub_call *only = NULL;

        if (calls->count != 1)
                return NULL;
        for (size_t i = 0; i < BUCKETS && !only; i++)
                only = TAILQ_FIRST(&calls->sent[i]);
        return only;
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
