/* The life of pending calls. */
#include "supervisor/mcp/call/call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/share.h"
#include "base/unguessable.h"
#include "base/utf8.h"
#include "rpc/jsonrpc.h"
#include "supervisor/mcp/call/ask.h"
#include "supervisor/mcp/call/result-content.h"
#include "supervisor/mcp/tasks/tasks.h"
#include "supervisor/service/metrics.h"
#include "supervisor/session/machine/queue.h"

enum {
        BUSY_MS = 10000,        /* that a call without `wait` waits behind another one */
        LARGE_MIN = 256 * 1024, /* bytes of an outcome whose answer is made in the background */
        RETRY_MS = 1000,        /* calls end at any time */
};

#define MINUTE_US UINT64_C(60000000)

void mcp_call_free(struct mcp_call *call)
{
        struct mcp_call **at = &call->server->calls;

        if (call->gone)
                *call->gone = true;
        while (*at != call)
                at = &(*at)->next;
        *at = call->next;
        if (!call->wait.is_kept) {
                call->server->n_calls--;
                call->principal->n_calls--;
        }
        if (call->wait.is_kept)
                call->principal->n_kept--;
        if (call->wait.due)
                event_free(call->wait.due);
        if (call->kind->done)
                call->kind->done(call);
        mcp_ask_end(&call->asks, "the call has ended");
        if (call->suspension.due)
                event_free(call->suspension.due);
        if (call->suspension.has_outcome)
                cell_outcome_done(&call->suspension.outcome);
        live_done(&call->live);
        free(call->wait.person);
        reply_done(&call->reply);
        if (call->answer)
                background_cancel(call->answer);
        free(call);
}

/* A client of an earlier version would take later kinds of content for an error. */
static unsigned content_kinds(const struct mcp_request *request)
{
        if (request->era == ERA_MODERN)
                return CONTENT_ALL;
        return (request->peer->version >= MCP_2025_03_26 ? CONTENT_AUDIO : 0) |
               (request->peer->version >= MCP_2025_06_18 ? CONTENT_LINKS : 0);
}

/* ---- the end of a request ---- */

static void stop_wait(struct mcp_call *call)
{
        if (call->wait.due)
                event_del(call->wait.due);
}

void mcp_call_unattend(struct mcp_call *call)
{
        stop_wait(call);
        live_done(&call->live);
        call->peer = NULL;
        call->can = 0;
        call->wait.unattended = true;
}

/* A request that only waits ends without its code. */
static bool leave(struct mcp_call *call)
{
        if (!call->wait.listens || !call->cell || call->suspension.active)
                return false;
        mcp_ask_end(&call->asks, "the request was cancelled");
        reply_nothing(&call->reply);
        reply_done(&call->reply);
        mcp_call_unattend(call);
        return true;
}

void mcp_call_abandon(struct mcp_call *call)
{
        call->cancelled = true;
        mcp_ask_end(&call->asks, "the call was cancelled");
        reply_nothing(&call->reply);
        live_done(&call->live);
        if (call->cell)
                cell_cancel(call->cell);
        else
                mcp_call_free(call);
}

static void cancel(struct mcp_call *call)
{
        if (!leave(call))
                mcp_call_abandon(call);
}

/* ---- tasks ---- */

/* The request was answered with a task. */
static void detach(void *data, bool silent)
{
        struct mcp_call *call = data;

        call->peer = NULL;
        if (!call->modern)
                call->can = 0;
        if (!silent)
                return;
        live_done(&call->live);
        call->reply.sink = mcp_sink_unref(call->reply.sink);
}

static void cancel_task(void *data)
{
        struct mcp_call *call = data;

        call->reply.sink = mcp_sink_unref(call->reply.sink);
        cancel(call);
}

static int append_input(void *data, struct buffer *to)
{
        const struct mcp_call *call = data;
        struct json_out out = {.to = to};

        if (TAILQ_EMPTY(&call->asks.list))
                return 0;
        mcp_ask_put(&out, NULL, &call->asks);
        return out.error < 0 ? out.error : 1;
}

bool mcp_call_give(struct mcp_call *call, yyjson_val *responses)
{
        bool gone = false;

        call->gone = &gone;
        mcp_ask_give(&call->asks, responses, &gone);
        if (!gone)
                call->gone = NULL;
        return !gone;
}

static void give_input(void *data, yyjson_val *responses)
{
        mcp_call_give(data, responses);
}

/* The reply may have a task. */
static void take_reply(struct mcp_call *call, struct reply *reply)
{
        static const struct task_work work = {detach, cancel_task, append_input, give_input};

        call->reply = *reply;
        *reply = (struct reply){};
        if (call->reply.task)
                task_attach(&call->reply, &work, call);
}

/* ---- requests ---- */

static void take_client(struct mcp_call *call, const struct mcp_request *request)
{
        call->modern = request->era == ERA_MODERN;
        call->kinds = content_kinds(request);
        call->can = call->modern ? request->can : request->peer->can;
        call->log_level = call->modern ? request->log_level : request->peer->log_level;
}

struct mcp_call *mcp_call_new(const struct mcp_request *request, const struct mcp_call_kind *kind,
                              const char *session, size_t max_output, struct reply *reply)
{
        struct mcp_peer *peer = request->peer;
        struct mcp_server *server = peer->server;
        struct mcp_call *call = calloc(1, sizeof(*call));

        if (!call)
                return NULL;
        call->kind = kind;
        call->server = server;
        call->peer = peer;
        call->principal = peer->principal;
        call->principal->n_calls++;
        take_reply(call, reply);
        take_client(call, request);
        const char *name = call->modern ? request->client_name : peer->client;
        snprintf(call->client_name, sizeof(call->client_name), "%s", name ? name : "");
        utf8_trim(call->client_name);
        call->trace = request->trace;
        memcpy(call->session, session, sizeof(call->session));
        call->max_output = max_output;
        mcp_asks_init(&call->asks, call->principal, &call->cell);
        call->next = server->calls;
        server->calls = call;
        server->n_calls++;
        return call;
}

void mcp_call_attach(struct mcp_call *call, const struct mcp_request *request, struct reply *reply)
{
        struct mcp_suspension *s = &call->suspension;

        if (s->due)
                event_del(s->due);
        s->active = false;
        s->state[0] = '\0';
        call->wait.unattended = false;
        call->peer = request->peer;
        if (!call->run && !call->tool)
                mcp_sink_name_session(reply->sink, call->session);
        take_client(call, request);
        take_reply(call, reply);
        call->live.published = call->run != NULL;
        if (call->cell)
                live_start(&call->live, request, &call->reply, call->cell, call->session);
        if (call->wait.person)
                live_person(&call->live, call->wait.person);
}

void mcp_call_name_session(char session[SESSION_NAME_MAX + 1])
{
        static_assert(NODE_MINTED_MAX <= (int)SESSION_NAME_MAX, "it is a name of a session");

        if (*node_name()) {
                node_mint(session);
                return;
        }
        memcpy(session, "s-", 3);
        unguessable(session + 2);
}

/* Cells begin at the rate that the principal may have; those of a minute may begin at once. */
static int take_cells(struct mcp_principal *principal, unsigned cells, struct service_refusal *ret)
{
        uint64_t now = clock_us(), rate = principal->cells_per_minute;
        uint64_t at = principal->cells_until_us > now ? principal->cells_until_us : now;

        if (rate == 0)
                return 0;
        at += cells * MINUTE_US / rate;
        if (at > now + MINUTE_US) {
                service_refuse(
                        ret, SERVICE_QUOTA, (at - now - MINUTE_US) / 1000,
                        "you have run as much code as your quota allows, %llu cells a minute: wait",
                        (unsigned long long)rate);
                return -EBUSY;
        }
        principal->cells_until_us = at;
        return 0;
}

/* is_live: a balancer that repeats a 503 elsewhere must not take a session there that lives here. */
static int check_calls(const struct mcp_server *server, const struct mcp_principal *principal,
                       bool is_live, struct service_refusal *ret)
{
        static const char many[] = "too many calls are running: wait until some have ended";
        bool is_full = principal->name[0] ? !share_allows(principal->n_calls, server->n_calls,
                                                          MCP_CALLS_MAX, 1)
                                          : server->n_calls >= MCP_CALLS_MAX;

        if (is_full)
                service_refuse(ret, is_live ? SERVICE_BUSY : SERVICE_FULL, RETRY_MS, many);
        else if (principal->calls_max > 0 && principal->n_calls >= principal->calls_max)
                service_refuse(ret, SERVICE_QUOTA, RETRY_MS, many);
        else
                return 0;
        return -EBUSY;
}

/* A place for the sandbox of a session that has none. */
static int check_place(struct sessions *sessions, const struct mcp_principal *principal,
                       const char *key, struct service_refusal *ret)
{
        struct error err = {};

        if (principal->sessions_max > 0 &&
            !sessions_quota(sessions, principal->key, principal->sessions_max)) {
                service_refuse(
                        ret, SERVICE_QUOTA, sessions_free_ms(sessions, principal->key),
                        "you have as many live sessions as your quota allows: use one of them");
                return -EBUSY;
        }
        int r = sessions_admit(sessions, key, &err);
        if (r < 0)
                service_refuse(ret, SERVICE_FULL, sessions_free_ms(sessions, NULL), "%s", err.text);
        return r;
}

int mcp_call_admit(const struct mcp_peer *peer, const char *session, unsigned cells,
                   struct service_refusal *ret)
{
        struct mcp_principal *principal = peer->principal;
        struct sessions *sessions = peer->server->sessions;
        char key[SESSION_KEY_MAX + 1];

        session_key_make(principal->key, session, key);
        bool is_live = sessions_is_live(sessions, key);
        if (service_is_stopping() || (service_phase() == SERVICE_DRAINING && !is_live)) {
                service_refuse_draining(ret);
                metrics_add(METRIC_REFUSED, 1, service_reason_name(ret->reason));
                return -EBUSY;
        }
        int r = check_calls(peer->server, principal, is_live, ret);
        if (r >= 0 && !is_live)
                r = check_place(sessions, principal, key, ret);
        if (r >= 0)
                r = take_cells(principal, cells, ret);
        if (r < 0)
                metrics_add(METRIC_REFUSED, 1, service_reason_name(ret->reason));
        return r;
}

/* ---- the cell ---- */

void mcp_call_keep(struct mcp_call *call, uint64_t number, struct cell_outcome *outcome)
{
        struct mcp_suspension *s = &call->suspension;

        cell_outcome_move(&s->outcome, outcome);
        s->number = number;
        s->has_outcome = true;
}

void mcp_call_done(void *data, struct cell *cell)
{
        struct mcp_call *call = data;

        mcp_ask_end(&call->asks, "the cell that has made the call has ended");
        call->cell = NULL;
        if (call->cancelled)
                mcp_call_free(call);
        else if (call->suspension.active)
                mcp_call_keep(call, cell->number, &cell->outcome);
        else
                call->kind->ended(call, cell->number, &cell->outcome);
}

void mcp_call_conclude(struct mcp_call *call)
{
        struct mcp_suspension *s = &call->suspension;
        struct cell_outcome outcome;

        cell_outcome_move(&outcome, &s->outcome);
        s->has_outcome = false;
        call->kind->ended(call, s->number, &outcome);
        cell_outcome_done(&outcome);
}

void mcp_call_output(void *data, enum cell_stream stream, const char *bytes, size_t n)
{
        struct mcp_call *call = data;

        live_output(&call->live, stream, bytes, n);
}

void mcp_call_start_wait(struct mcp_call *call)
{
        const struct mcp_wait *wait = &call->wait;
        bool is_behind = call->cell && !cell_is_first(call->cell);
        bool has_person = wait->person_ms > 0 && (!wait->is_limited || wait->person_ms < wait->ms);
        const struct timeval in = clock_timeval_ms(has_person         ? wait->person_ms
                                                   : wait->is_limited ? wait->ms
                                                                      : BUSY_MS);

        if (wait->due && (has_person || wait->is_limited || is_behind))
                evtimer_add(wait->due, &in);
}

/* NULL: there is no memory for it. */
static char *name_way(const struct person_way *way)
{
        char *text = NULL;

        int n = asprintf(&text, "waits for a person: %s%s%s%s", way->id ? "cloister approve " : "",
                         way->id ? way->id : "", way->id && way->page ? ", or " : "",
                         way->page ? way->page : "");
        return n < 0 ? NULL : text;
}

bool mcp_call_waits(void *data, const struct person_way *way)
{
        struct mcp_call *call = data;
        struct mcp_wait *wait = &call->wait;
        char *before = wait->person;

        wait->person = way ? name_way(way) : NULL;
        wait->person_ms = way ? way->wait_ms : 0;
        live_person(&call->live, wait->person);
        free(before);
        if ((wait->person_ms > 0 || (!way && wait->is_limited)) && !wait->unattended)
                mcp_call_start_wait(call);
        return true;
}

void mcp_call_finish(struct mcp_call *call)
{
        live_finish(&call->live);
        stop_wait(call);
}

/* How many bytes are rendered, about. */
static size_t bytes_of(const struct cell_outcome *o, size_t max_output)
{
        size_t n = o->result ? yyjson_doc_get_read_size(o->result) : 0;

        for (int i = 0; i < CELL_STREAMS; i++)
                n += o->streams[i].characters < max_output || o->streams[i].has_return
                             ? o->streams[i].characters
                             : max_output;
        for (size_t i = 0; i < o->n_displays; i++)
                n += o->displays[i].data.length;
        return n;
}

static void make_answer(struct background_job *job)
{
        struct mcp_answer *a = (void *)job;

        a->r = a->kind->make(a, &a->result);
}

static void free_answer(struct background_job *job)
{
        struct mcp_answer *a = (void *)job;

        if (a->kind->done)
                a->kind->done(a);
        cell_outcome_done(&a->outcome);
        background_free(a->result.data, a->result.allocated);
        free(a);
}

static void send_answer(struct background_job *job)
{
        struct mcp_answer *a = (void *)job;
        struct mcp_call *call = a->call;

        call->answer = NULL;
        reply_made(&call->reply, a->r, &a->result);
        if (a->kind->sent)
                a->kind->sent(a);
        free_answer(job);
        mcp_call_free(call);
}

void mcp_answer_start(struct mcp_answer *a, const struct mcp_answer_kind *kind,
                      struct mcp_call *call, struct cell_outcome *outcome)
{
        static const struct background_kind jobs = {make_answer, send_answer, free_answer};
        bool large = bytes_of(outcome, call->max_output) > LARGE_MIN;

        a->kind = kind;
        a->call = call;
        cell_outcome_move(&a->outcome, outcome);
        buffer_init(&a->result, RESULT_MAX);
        call->answer = &a->job;
        if (large) {
                background_start(&a->job, &jobs, call->server->base);
                return;
        }
        make_answer(&a->job);
        send_answer(&a->job);
}

/* ---- by id ---- */

static struct mcp_call *find_pending(const struct mcp_peer *peer, yyjson_val *id)
{
        for (struct mcp_call *call = peer->server->calls; call; call = call->next) {
                if (call->peer == peer && !call->cancelled &&
                    jsonrpc_id_equals(reply_id(&call->reply), id))
                        return call;
        }
        return NULL;
}

bool mcp_call_is_pending(const struct mcp_peer *peer, yyjson_val *id, bool cancels)
{
        struct mcp_call *call = find_pending(peer, id);

        if (call && cancels)
                cancel(call);
        return call;
}

void mcp_call_drop(struct mcp_peer *peer)
{
        struct mcp_call *call = peer->server->calls;

        while (call) {
                bool is_of_peer = call->peer == peer;
                if (is_of_peer)
                        call->peer = NULL;
                if (is_of_peer && !call->cancelled)
                        cancel(call);
                /* cell_cancel() may end the call, and with it the list's element. */
                call = is_of_peer ? peer->server->calls : call->next;
        }
}

void mcp_call_forget(struct mcp_server *server, const struct mcp_principal *principal)
{
        struct mcp_call *call = server->calls;

        while (call) {
                bool is_meant = call->principal == principal && !call->cancelled;
                if (is_meant)
                        mcp_call_abandon(call);
                call = is_meant ? server->calls : call->next;
        }
}

/* A client can answer only requests that were sent to it. */
bool mcp_call_response(struct mcp_peer *peer, const struct jsonrpc_message *message)
{
        for (struct mcp_call *call = peer->server->calls; call; call = call->next) {
                if (call->peer == peer && !call->modern && mcp_ask_response(&call->asks, message))
                        return true;
        }
        return false;
}
