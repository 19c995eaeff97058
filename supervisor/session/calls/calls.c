/* What code asks for: CALL, QUERY and READ in, RETURN out, DROP when the code stops waiting. */
#include "supervisor/session/calls/calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json-out.h"
#include "base/json.h"
#include "base/log.h"
#include "base/share.h"
#include "base/utf8.h"
#include "rpc/memfd-frame.h"
#include "supervisor/session/calls/install.h"
#include "supervisor/session/machine/machine.h"
#include "supervisor/trust/plans/plan.h"
#include "supervisor/trust/records/record.h"
#include "supervisor/trust/steps.h"
#include "supervisor/trust/trust.h"

enum {
        WAIT_MAX_MS = 10000,
        INPUT_ANSWER_MAX = FRAME_READ_MAX * 2,
        /* Of the calls of all principals: less than the bounds of one server (supervisor/hub/call/call.h), which none of them
         * reaches then. */
        CALLS_BYTES_MAX = 64 * 1024 * 1024,
        CALL_BYTES = 1024,                        /* of a call, besides its frame */
        SEARCHES_OF_ONE = 2 * CALLS_SEARCHES_MAX, /* of several principals: there is one thread */
};

struct tool_call {
        struct tool_call *next;
        struct session *session;
        uint64_t number;
        void *handle;             /* the provider's, of a call … */
        void *wait;               /* … or of a wait for the catalogue … */
        void *search;             /* … or of a search; all others are NULL */
        struct trust_call *trust; /* of a call that rules are about, or NULL */
        char *labelled;           /* trust_name_result() */
        unsigned labels;          /* what its result brings into the session */
        bool is_query, is_search;
        char *words; /* what a QUERY searches for, or NULL */
        size_t n_words, limit;
        uint64_t cell;          /* number of the cell that made it, 0: background work */
        struct cell_call *slot; /* in that cell's record, or NULL */
        uint64_t n_sent;        /* bytes of the CALL */
        uint64_t record;        /* number of its record in the journal; 0: none */
        size_t plan_row;        /* that its result is for, from 1; 0: none */
        size_t n_counted;       /* for the principal */
        char server[CELL_NAME_MAX + 1];
};

static struct tool_call **bucket_of(struct calls *calls, uint64_t number)
{
        return &calls->buckets[number % CALLS_BUCKETS];
}

static struct tool_call **find(struct calls *calls, uint64_t number)
{
        if (!calls->buckets)
                return NULL;
        for (struct tool_call **at = bucket_of(calls, number); *at; at = &(*at)->next) {
                if ((*at)->number == number)
                        return at;
        }
        return NULL;
}

/* Adds an entry. Two pending entries with one id would make an answer ambiguous. */
static int add(struct session *session, uint64_t number, struct tool_call **ret, struct error *err)
{
        struct calls *calls = session->calls;

        if (find(calls, number))
                return error_set(err, EPROTO, "a second call with the number %llu",
                                 (unsigned long long)number);
        if (!calls->buckets)
                calls->buckets = calloc(CALLS_BUCKETS, sizeof(struct tool_call *));
        struct tool_call *call = calls->buckets ? calloc(1, sizeof(*call)) : NULL;
        if (!call)
                return error_errno(err, ENOMEM, "call");
        struct cell *cell = session_current(session);
        call->session = session;
        call->number = number;
        call->cell = cell ? cell->number : 0;
        call->next = *bucket_of(calls, number);
        *bucket_of(calls, number) = call;
        calls->n++;
        *ret = call;
        return 0;
}

static void count_bytes(struct tool_call *call, size_t n)
{
        struct session_principal *p = call->session->principal;

        p->call_bytes += n - call->n_counted;
        p->all->call_bytes += n - call->n_counted;
        call->n_counted = n;
}

static void remove_call(struct tool_call *call)
{
        struct calls *calls = call->session->calls;
        struct tool_call **at = find(calls, call->number);

        *at = call->next;
        calls->n--;
        calls->n_queries -= call->is_query;
        calls->n_searches -= call->is_search;
        call->session->principal->n_searches -= call->is_search;
        count_bytes(call, 0);
        trust_free(call->trust);
        free(call->labelled);
        free(call->words);
        free(call);
}

/* Sends the result as its server wrote it: it was parsed, so it is JSON and within the limits. */
static void send_success(struct session *session, uint64_t number, const struct tool_result *result,
                         bool is_blank)
{
        struct channel *channel = &session->channel;
        _cleanup_free_ char *written = NULL;
        const char *text = result->text;
        size_t n = result->text_length;
        int r = 0;

        if (!text && !result->memfd) {
                r = json_write(result->result, &written, &n);
                text = written;
        }
        if (result->memfd)
                r = channel_send_memfd(channel, FRAME_RETURN, number, take_fd(*result->memfd),
                                       result->memfd_length);
        else if (r >= 0)
                r = is_blank ? answer_blank(channel, number, text, n)
                             : answer_result(channel, number, text, n);
        if (r == -EMSGSIZE)
                answer_refuse(
                        channel, number,
                        "the result is too large: more than 64 MiB wait to be read by the code");
        else if (r == -ENOBUFS)
                answer_refuse(
                        channel, number,
                        "the result is too large: too much waits to be read already, by this session and others");
        else if (r < 0 && r != -ENOTCONN)
                answer_refuse(channel, number, strerror(-r));
}

/* The cell that made the call, if it still runs, and the call's slot in its record. */
static struct cell *cell_of(const struct tool_call *call, struct cell_call **slot)
{
        struct cell *cell = session_current(call->session);

        if (!cell || call->cell != cell->number)
                cell = NULL;
        *slot = cell ? call->slot : NULL;
        return cell;
}

static void record_end(struct tool_call *call, enum record_outcome outcome, uint64_t duration_us,
                       uint64_t received)
{
        struct cell_call *slot;
        struct cell *cell = cell_of(call, &slot);
        struct record_answer answer = {
                .ids = session_log_ids(call->session, cell),
                .of = call->record,
                .outcome = outcome,
                .duration_us = duration_us,
                .bytes = received,
        };

        answer.ids.call = call->number;
        answer.ids.server = call->server;
        answer.ids.tool = slot ? slot->tool : NULL;
        record_answer(&answer);
        call->record = 0;
}

/* received: bytes of the result. */
static void note_end(const struct tool_call *call, bool sent, bool ok, uint64_t duration_us,
                     uint64_t received)
{
        struct cell_call *slot;
        struct cell *cell = cell_of(call, &slot);

        struct log_ids ids = session_log_ids(call->session, cell);
        ids.call = call->number;
        ids.server = slot ? slot->server : NULL;
        ids.tool = slot ? slot->tool : NULL;
        log_event(LOG_LEVEL_INFO, &ids, "call %s in %llu ms",
                  !sent ? "was not sent"
                  : ok  ? "succeeded"
                        : "failed",
                  (unsigned long long)(duration_us / 1000));
        if (cell)
                cell_call_end(cell, slot, sent, ok, duration_us,
                              (struct cell_bytes){call->n_sent, received});
}

static bool is_error(yyjson_val *result)
{
        return yyjson_is_true(yyjson_obj_get(result, "isError"));
}

/* Of a result that was made here and not read from a server, the size is not known yet. */
static uint64_t bytes_of(const struct tool_result *result)
{
        return result->memfd ? result->memfd_length : result->text ? result->text_length : 0;
}

/* Before the code has the result. */
static void note_labels(const struct tool_call *call)
{
        struct session_labels *labels = &call->session->labels;

        if (call->labelled)
                session_labels_add(labels, call->labels, call->labelled, call->cell, call->number);
        else
                labels->seen |= call->labels;
}

/* The result that a memfd has: writing its document anew would take longer than a turn of the loop may. All reads of a plan together copy
 * no more than its bound. */
static char *read_large(const struct tool_result *result, size_t most, size_t *ret)
{
        size_t before = strlen(RETURN_BEFORE), around = before + strlen(RETURN_AFTER);
        size_t n = result->memfd_length > around ? result->memfd_length - around : 0;
        _cleanup_free_ char *text = n > 0 && n <= most ? malloc(n) : NULL;

        if (!text || pread(*result->memfd, text, n, (off_t)before) != (ssize_t)n)
                return NULL;
        *ret = n;
        return take_ptr(text);
}

/* A read of a cell that fills a plan. Without memory it is made again in the session. */
static void keep_planned(const struct tool_call *call, const struct tool_result *result)
{
        struct cell_call *slot;
        const struct cell *cell = cell_of(call, &slot);

        _cleanup_free_ char *written = NULL;
        const char *text = result->text;
        size_t n = result->text_length;

        if (call->plan_row == 0 || !cell || !cell->request.plan)
                return;
        if (result->memfd)
                text = written = read_large(result, plan_room(cell->request.plan), &n);
        else if (!text && json_write(result->result, &written, &n) >= 0)
                text = written;
        if (!text)
                return;
        plan_keep_result(cell->request.plan, call->plan_row - 1, text, n);
}

void tool_call_done(struct tool_call *call, const struct tool_result *result)
{
        struct session *session = call->session;
        uint64_t number = call->number;
        bool ok = !result->error_kind, is_fine = ok && !is_error(result->result);
        /* An error of JSON-RPC is an answer; other errors are the end of the wait for one. */
        enum record_outcome outcome = is_fine                  ? RECORD_COMMITTED
                                      : ok || result->rpc_code ? RECORD_FAILED
                                      : result->sent           ? RECORD_IN_DOUBT
                                                               : RECORD_NOT_SENT;

        record_end(call, outcome, result->duration_us, ok ? bytes_of(result) : 0);
        note_end(call, result->sent, is_fine, result->duration_us, ok ? bytes_of(result) : 0);
        if (ok)
                keep_planned(call, result);
        if (result->sent)
                note_labels(call);
        remove_call(call);
        if (ok)
                send_success(session, number, result, false);
        else
                answer_error(
                        &session->channel, number,
                        &(struct answer_error){
                                .kind = result->error_kind,
                                .message = result->message ? result->message : "the call failed",
                                .code = result->rpc_code,
                                .data = result->rpc_data,
                        });
        channel_resume(&session->channel);
}

/* The cell that has made the call, if it has a client. */
static struct cell *cell_with_client(const struct tool_call *call)
{
        struct cell_call *slot;
        struct cell *cell = cell_of(call, &slot);

        return cell && cell->request.client && !cell->cancelled ? cell : NULL;
}

bool tool_call_client(struct tool_call *call, struct cell_client *ret, const void **id)
{
        struct cell *cell = cell_with_client(call);

        if (!cell)
                return false;
        cell->request.client->describe(cell->request.data, ret);
        *id = cell;
        return true;
}

const char *tool_call_principal(const struct tool_call *call, size_t *n)
{
        const char *key = call->session->name, *name = session_key_name(key);

        *n = name > key ? (size_t)(name - key) - 1 : 0;
        return key;
}

const struct trace_context *tool_call_trace(const struct tool_call *call)
{
        struct cell_call *slot;
        const struct cell *cell = cell_of(call, &slot);

        return cell && *cell->trace.id ? &cell->trace : NULL;
}

int tool_call_ask(struct tool_call *call, struct client_ask *ask, struct error *err)
{
        struct cell *cell = cell_with_client(call);

        if (!cell)
                return error_set(err, ENOTCONN, "the cell that has made the call has ended");
        return cell->request.client->ask(cell->request.data, ask, err);
}

void tool_call_progress(struct tool_call *call, const struct cell_progress *progress)
{
        struct cell *cell = cell_with_client(call);

        if (cell)
                cell->request.client->progress(cell->request.data, call->server, progress);
}

void tool_call_log(struct tool_call *call, yyjson_val *params)
{
        struct cell *cell = cell_with_client(call);

        if (cell)
                cell->request.client->log(cell->request.data, call->server, params);
}

/* Reads the tool of a CALL, or the method, whose name stands for the tool's in the record. */
static int read_call(yyjson_val *root, struct tool_request *ret, struct error *err)
{
        size_t n_server = 0, n_tool = 0;
        int64_t timeout = 0;

        ret->server = json_string(root, "server", &n_server);
        ret->method = json_string(root, "method", &n_tool);
        if (!ret->method)
                ret->tool = json_string(root, "tool", &n_tool);
        const char *what = ret->method ? ret->method : ret->tool;
        ret->arguments = yyjson_obj_get(root, "arguments");
        if (!ret->server || !what || !yyjson_is_obj(ret->arguments))
                return error_set(err, EBADMSG, "CALL without server, tool or arguments");
        if (strlen(ret->server) != n_server || strlen(what) != n_tool)
                return error_set(err, EBADMSG, "CALL with a NUL in the name of server or tool");
        json_int64(yyjson_obj_get(root, "timeout_ms"), &timeout);
        ret->timeout_ms = timeout > 0 && timeout <= UINT32_MAX ? (uint32_t)timeout : 0;
        return 0;
}

/* Principals share the calls. Large arguments are kept until the server has read them. */
static int charge_arguments(struct tool_call *call, struct shared_text *text, struct error *err)
{
        const struct session *session = call->session;
        const struct session_principal *p = session->principal;
        size_t n = call->n_sent + CALL_BYTES;

        if (p->number > 0 && !share_allows(p->call_bytes, p->all->call_bytes, CALLS_BYTES_MAX, n))
                return error_set(err, ENOBUFS,
                                 "too many calls of tools are in progress in your sessions");
        count_bytes(call, n);
        if (!text)
                return 0;
        charge_open(&text->charge, session->account);
        if (!charge_fits(&text->charge, text->n))
                return error_set(
                        err, ENOBUFS,
                        "arguments of %zu MiB: too much waits to be read already, of this session and others",
                        text->n >> 20);
        charge_set(&text->charge, text->n);
        return 0;
}

static void hold_time(const struct tool_call *call, bool stands_still)
{
        const struct tool_provider *tools = &call->session->context->tools;

        if (call->handle && tools->hold)
                tools->hold(call->handle, stands_still);
}

void calls_stand_still(struct session *session, bool stands_still)
{
        struct calls *calls = session->calls;

        for (size_t i = 0; calls->n > 0 && i < CALLS_BUCKETS; i++) {
                for (struct tool_call *call = calls->buckets[i]; call; call = call->next)
                        hold_time(call, stands_still);
        }
}

/* The call was not sent. */
static void fail(struct tool_call *call, const struct answer_error *error)
{
        struct session *session = call->session;
        uint64_t number = call->number;

        record_end(call, RECORD_NOT_SENT, 0, 0);
        note_end(call, false, false, 0, 0);
        answer_error(&session->channel, number, error);
        remove_call(call);
}

static void send_call(struct tool_call *call, const struct tool_request *request)
{
        const struct tool_provider *tools = &call->session->context->tools;
        struct error why = {};

        if (tools->call(tools->data, request, &call->handle, &why) < 0)
                fail(call, &(struct answer_error){.kind = "ToolError", .message = why.text});
        else if (call->session->stands_still)
                hold_time(call, true);
}

static void send_trusted(struct tool_call *call, struct trust_call *trust)
{
        call->trust = NULL;
        call->record = trust->record;
        call->plan_row = trust->plan_row;
        send_call(call, &trust->request);
        trust_free(trust);
}

/* By a plan: nothing is sent. The labels are those of the result that it stands for. */
static void answer_planned(struct tool_call *call, struct trust_call *trust)
{
        struct session *session = call->session;
        const struct tool_result result = {.text = buffer_bytes(&trust->answer),
                                           .text_length = trust->answer.length};

        note_end(call, false, true, 0, 0);
        note_labels(call);
        send_success(session, call->number, &result, trust->is_blank);
        remove_call(call);
}

static void fail_trusted(struct tool_call *call, struct trust_call *trust)
{
        const struct trust_refusal *refusal = &trust->refusal;

        call->record = trust->record;
        fail(call, &(struct answer_error){.kind = refusal->kind,
                                          .message = refusal->message.text,
                                          .rule = refusal->rule,
                                          .why = refusal->why});
}

static void resume_trusted(struct tool_call *call, struct trust_call *trust)
{
        struct session *session = call->session;

        send_trusted(call, trust);
        channel_resume(&session->channel);
}

static void end_trusted(struct tool_call *call, struct trust_call *trust)
{
        struct session *session = call->session;

        fail_trusted(call, trust);
        channel_resume(&session->channel);
}

/* The steps between the code and the server (supervisor/trust/trust.h). */
static void take_steps(struct tool_call *call, const struct tool_request *request,
                       struct frame_body *body)
{
        static const struct trust_owner owner = {resume_trusted, end_trusted, trust_steps,
                                                 trust_journal_denial};

        enum trust_result result = trust_begin(call->session, request, call->cell, call->number,
                                               body, &owner, &call->trust);
        if (result == TRUST_GO_ON)
                send_trusted(call, call->trust);
        else if (result == TRUST_ANSWERED)
                answer_planned(call, call->trust);
        else if (result == TRUST_REFUSED && call->trust)
                fail_trusted(call, call->trust);
        else if (result == TRUST_REFUSED)
                fail(call, &(struct answer_error){.kind = "ToolError", .message = "no memory"});
}

int calls_on_call(struct session *session, const struct frame_header *header,
                  struct frame_body *body, struct error *err)
{
        struct tool_request request = {.profile = session->rights};
        struct error why = {};
        struct tool_call *call;
        yyjson_val *root;

        if (session->state == SESSION_DRAINING)
                return 0;
        int r = frame_body_parse(body, header, &root, err);
        if (r < 0)
                return r;
        r = read_call(root, &request, err);
        if (r < 0)
                return r;
        request.text = body->arguments;
        why = body->names;
        if (body->bytes)
                (void)json_check_names(root, NULL, &why);
        bool is_misnamed = error_is_set(&why);

        r = add(session, header->id, &call, err);
        if (r < 0)
                return r;
        struct cell *cell = session_current(session);
        if (cell)
                call->slot = cell_call_begin(cell, request.server,
                                             request.method ? request.method : request.tool);
        call->n_sent = header->length;
        if (call->slot)
                call->slot->sent_bytes = call->n_sent;
        snprintf(call->server, sizeof(call->server), "%s", request.server);
        utf8_trim(call->server);
        request.call = call;
        call->labelled = trust_name_result(session, &request, &call->labels);
        r = is_misnamed ? -why.code : charge_arguments(call, request.text, &why);
        if (r < 0)
                fail(call,
                     &(struct answer_error){.kind = is_misnamed ? "ToolArgumentError" : "ToolError",
                                            .message = why.text});
        else if (trust_applies(session, &request))
                take_steps(call, &request, body);
        else
                send_call(call, &request);
        return 0;
}

/* Sends the newest catalogue before the answer, so that the code sees it when the answer arrives. */
static void answer_query(struct session *session, uint64_t number)
{
        char version[48];

        session_send_catalogue(session);
        int n = snprintf(version, sizeof(version), "{\"version\":%llu}",
                         (unsigned long long)session->catalogue);
        answer_result(&session->channel, number, version, (size_t)n);
}

static void end_search(struct tool_call *call, const char *found, size_t n)
{
        struct session *session = call->session;
        uint64_t number = call->number;
        int r = found ? 0 : -ENOMEM;

        remove_call(call);
        if (r >= 0) {
                session_send_catalogue(session);
                r = answer_result(&session->channel, number, found, n);
        }
        if (r < 0 && r != -ENOTCONN)
                answer_refuse(&session->channel, number, "the tools could not be searched");
}

void tool_search_done(struct tool_call *call, const char *found, size_t n)
{
        struct session *session = call->session;

        end_search(call, found, n);
        channel_resume(&session->channel);
}

/* Nothing follows: the provider may have answered. */
static void start_search(struct tool_call *call)
{
        const struct tool_provider *tools = &call->session->context->tools;

        call->wait = NULL;
        if (tools->search(tools->data, call->session->rights, call->words, call->n_words,
                          call->limit, call, &call->search) < 0)
                end_search(call, NULL, 0);
}

void tool_wait_done(struct tool_call *call)
{
        struct session *session = call->session;
        uint64_t number = call->number;

        if (call->is_search) {
                start_search(call);
                return;
        }
        remove_call(call);
        answer_query(session, number);
        channel_resume(&session->channel);
}

/* Takes "q" and "limit" of a QUERY for a search. */
static int take_search(struct tool_call *call, yyjson_val *root)
{
        const char *words = json_string(root, "q", &call->n_words);
        int64_t limit = 0;

        json_int64(yyjson_obj_get(root, "limit"), &limit);
        call->limit = limit > 0 ? (size_t)limit : 0;
        call->words = malloc(call->n_words + 1);
        if (!call->words)
                return -ENOMEM;
        memcpy(call->words, words, call->n_words);
        return 0;
}

/* A search, or a wait for the catalogue. */
static int begin_query(struct session *session, uint64_t number, yyjson_val *root, bool is_search,
                       struct error *err)
{
        const struct tool_provider *tools = &session->context->tools;
        struct tool_call *call;
        int64_t wait_ms = 0;

        json_int64(yyjson_obj_get(root, "wait_ms"), &wait_ms);
        int r = add(session, number, &call, err);
        if (r < 0)
                return r;
        call->is_query = true;
        call->is_search = is_search;
        session->calls->n_queries++;
        session->calls->n_searches += is_search;
        session->principal->n_searches += is_search;
        if (is_search && take_search(call, root) < 0) {
                end_search(call, NULL, 0);
                return 0;
        }
        uint32_t most = wait_ms < WAIT_MAX_MS ? (uint32_t)wait_ms : WAIT_MAX_MS;
        /* The wait keeps the pointer: the session's own config lives as long as it. */
        if (wait_ms > 0)
                call->wait = tools->wait(tools->data, session->profile, most, call);
        if (!call->wait && is_search) {
                start_search(call);
        } else if (!call->wait) {
                remove_call(call);
                answer_query(session, number);
        }
        return 0;
}

int calls_on_search(struct session *session, uint64_t number, yyjson_val *root, struct error *err)
{
        const struct calls *calls = session->calls;
        const struct session_principal *p = session->principal;
        bool is_full = calls->n_searches >= CALLS_SEARCHES_MAX ||
                       (p->number > 0 && p->n_searches >= SEARCHES_OF_ONE);

        if (!json_string(root, "q", NULL))
                return error_set(err, EBADMSG, "QUERY for a search without words");
        session_send_catalogue(session);
        if (calls->n_queries < CALLS_QUERIES_MAX && !is_full)
                return begin_query(session, number, root, true, err);
        answer_refuse(&session->channel, number,
                      "too many searches are running: await some of them");
        return 0;
}

int calls_on_catalogue(struct session *session, uint64_t number, yyjson_val *root,
                       struct error *err)
{
        int64_t wait_ms = 0;

        json_int64(yyjson_obj_get(root, "wait_ms"), &wait_ms);
        if (wait_ms > 0 && session->calls->n_queries < CALLS_QUERIES_MAX) {
                session_send_catalogue(session);
                return begin_query(session, number, root, false, err);
        }
        answer_query(session, number);
        return 0;
}

/* ---- standard input ---- */

int input_on_read(struct session *session, const struct frame_header *header,
                  struct frame_body *body, struct error *err)
{
        struct cell *cell = session_current(session);
        int64_t length = 0;
        yyjson_val *root;

        if (!cell || !cell->request.standard_input)
                return error_set(err, EPROTO, "READ from code that has no standard input");
        if (cell->is_reading)
                return error_set(err, EPROTO, "a second READ before the answer to the first one");
        int r = frame_body_parse(body, header, &root, err);
        if (r < 0)
                return r;
        if (json_int64(yyjson_obj_get(root, "length"), &length) < 0 || length < 1 ||
            length > FRAME_READ_MAX)
                return error_set(err, EBADMSG, "READ of less than 1 or more than %d bytes",
                                 FRAME_READ_MAX);
        if (session->state == SESSION_DRAINING)
                return 0;
        cell->is_reading = true;
        cell->read_id = header->id;
        cell->request.standard_input->read(cell->request.data, (size_t)length);
        return 0;
}

static int input_on_drop(struct session *session, uint64_t number)
{
        struct cell *cell = session_current(session);

        if (cell && cell->is_reading && cell->read_id == number) {
                cell->is_reading = false;
                cell->request.standard_input->drop(cell->request.data);
        }
        return 0;
}

void cell_give_input(struct cell *cell, const char *bytes, size_t n)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(INPUT_ANSWER_MAX);
        struct channel *channel = &cell->session->channel;
        struct json_out out = {.to = &b};

        if (!cell->is_reading)
                return;
        cell->is_reading = false;
        json_out_begin(&out, NULL, '{');
        json_out_bool(&out, "ok", true);
        json_out_base64(&out, "result", bytes, n);
        json_out_end(&out, '}');
        int r = out.error;
        if (r >= 0)
                r = channel_send(channel, FRAME_RETURN, cell->read_id, buffer_bytes(&b), b.length);
        /* Otherwise the code would take lost bytes for read ones. */
        if (r < 0 && r != -ENOTCONN)
                answer_refuse(channel, cell->read_id, "a part of the standard input was lost");
}

/* ---- the end of calls ---- */

/* Whether the provider has sent the call to its server. The record contains only calls
 * that were sent, not those that the worker reports. */
static bool is_sent(const struct tool_call *call)
{
        const struct tool_provider *tools = &call->session->context->tools;

        return call->handle && tools->is_sent(call->handle);
}

void calls_forget_unsent(struct session *session)
{
        struct calls *calls = session->calls;
        struct cell_call *slot;

        for (size_t i = 0; calls->n > 0 && i < CALLS_BUCKETS; i++) {
                for (struct tool_call *call = calls->buckets[i]; call; call = call->next) {
                        struct cell *cell = is_sent(call) ? NULL : cell_of(call, &slot);
                        if (cell)
                                cell_call_end(cell, slot, false, false, 0, (struct cell_bytes){});
                        call->slot = cell ? NULL : call->slot;
                }
        }
}

static void drop(struct tool_call *call)
{
        const struct tool_provider *tools = &call->session->context->tools;

        if (call->trust)
                call->record = call->trust->record;
        record_end(call, is_sent(call) ? RECORD_IN_DOUBT : RECORD_NOT_SENT, 0, 0);
        if (call->handle)
                tools->drop(call->handle);
        if (call->wait)
                tools->cancel_wait(call->wait);
        if (call->search)
                tools->cancel_search(call->search);
}

/* A DROP may cross the RETURN: an unknown id is not an error. */
int calls_on_drop(struct session *session, const struct frame_header *header,
                  struct frame_body *body, struct error *err)
{
        struct tool_call **at = find(session->calls, header->id);
        struct cell_call *slot;
        yyjson_val *root;

        int r = frame_body_parse(body, header, &root, err);
        if (r < 0)
                return r;
        /* The worker got the header of the answer, but not its memfd. */
        if (yyjson_is_true(yyjson_obj_get(root, "lost")))
                channel_take_back(&session->channel, header->id);
        if (!at) {
                install_drop(session, header->id);
                return input_on_drop(session, header->id);
        }
        struct tool_call *call = *at;
        struct cell *cell = cell_of(call, &slot);
        if (cell && call->handle)
                cell_call_end(cell, slot, is_sent(call), false,
                              slot ? clock_us() - slot->started_us : 0,
                              (struct cell_bytes){call->n_sent, 0});
        drop(call);
        remove_call(call);
        return 0;
}

void calls_drop_all(struct session *session)
{
        struct calls *calls = session->calls;

        for (size_t i = 0; calls->buckets && i < CALLS_BUCKETS; i++) {
                for (struct tool_call *call; (call = calls->buckets[i]);) {
                        drop(call);
                        remove_call(call);
                }
        }
        free(calls->buckets);
        *calls = (struct calls){};
        install_drop_all(session);
}
