/* The messages of a server. */
#include "supervisor/hub/server/messages.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json-out.h"
#include "base/log.h"
#include "base/utf8.h"
#include "rpc/lines.h"
#include "rpc/memory-reservation.h"
#include "supervisor/hub/call/answer.h"
#include "supervisor/hub/call/call.h"
#include "supervisor/secrets/mask.h"

enum {
        ASKS_MAX = 4,      /* of a server that works on no call */
        LOGGED_BYTES = 80, /* of a line that is not a message */
        HEADER_MISMATCH = -32020,
        MASKED_MAX = 4 << 20, /* of a message that is searched for secrets */
};

/*
 * ---- requests to our client ----
 *
 * A request is passed on for a call of the server's (call/answer.h). A server that works on no call may
 * request only roots, as many do when they have started, and only from the owner's own client.
 */

void hub_server_on_answered(void *data, struct question *q, yyjson_val *answer, const char *result,
                            const char *why)
{
        struct hub_server *s = data;

        connection_respond(&s->connection, yyjson_doc_get_root(q->id), result, why);
        question_end(q);
}

/* Asks the owner's client. Takes the request. */
static int ask_owner(struct hub_server *s, struct client_request *request, yyjson_val *id,
                     struct error *err)
{
        const struct hub_host *owner = s->host->owner;
        yyjson_doc *copy = NULL;

        if (!owner->ask)
                return error_set(err, EOPNOTSUPP, "there is no client that could be asked");
        if (s->questions.n >= ASKS_MAX)
                return error_set(err, EBUSY, "the server asks for too much at once");
        int r = jsonrpc_id_copy(id, CLIENT_ASK_ID_MAX, &copy);
        if (r < 0)
                return error_errno(err, -r, "ask");
        struct question *q = questions_add(&s->questions, request, s->config->name, copy, NULL);
        if (!q)
                return error_errno(err, ENOMEM, "ask");
        r = owner->ask(owner->data, &q->ask, err);
        if (r < 0)
                question_refused(q, request);
        return r;
}

unsigned hub_server_client_can(void *data)
{
        const struct hub_server *s = data;

        return s->host->can;
}

/* A request for our client. Returns false if it is a request for something else. */
static bool on_ask(struct hub_server *s, const struct jsonrpc_message *m)
{
        _cleanup_client_request_ struct client_request request = {};
        struct error err = {};
        const char *why = NULL;

        int r = client_request_read(&request, s->config->name, m->method, m->method_length,
                                    m->params, &err);
        /* A call whose server asks a person fails with ToolInputRequired if the client does not support it. Other
         * undeclared requests get "Method not found". */
        bool is_known = request.kind == CLIENT_FORM || request.kind == CLIENT_URL ||
                        (hub_server_client_can(s) & request.needs) == request.needs;
        if (r == -EOPNOTSUPP || (r >= 0 && !is_known))
                return false;
        if (r < 0) {
                connection_refuse(&s->connection, m->id, JSONRPC_INVALID_PARAMS, err.text);
                return true;
        }
        if (!rate_allow(&s->unnamed, 1, NULL)) {
                connection_refuse(&s->connection, m->id, JSONRPC_INTERNAL_ERROR,
                                  "the server asks too often");
                return true;
        }
        struct hub_call *call = hub_calls_attribute(&s->calls, m->params, &why);
        if (call) {
                hub_call_ask(call, &request, m->id);
                return true;
        }
        if (request.kind == CLIENT_ROOTS && s->calls.count == 0)
                why = ask_owner(s, &request, m->id, &err) < 0 ? err.text : NULL;
        if (why)
                connection_refuse(&s->connection, m->id, JSONRPC_INTERNAL_ERROR, why);
        return true;
}

/* ---- messages ---- */

static bool is_modern(const struct hub_server *s)
{
        return s->handshake.speaks == HUB_ERA_MODERN;
}

static bool on_changed(struct hub_server *s, const struct jsonrpc_message *m)
{
        handshake_on_changed(&s->handshake, m);
        return false;
}

static bool on_acknowledged(struct hub_server *s, const struct jsonrpc_message *m)
{
        handshake_on_acknowledged(&s->handshake, m);
        return false;
}

static bool on_cancelled(struct hub_server *s, const struct jsonrpc_message *m)
{
        yyjson_val *id = yyjson_obj_get(m->params, "requestId");

        handshake_on_cancelled(&s->handshake, m);
        hub_calls_unask(&s->calls, id);
        questions_withdraw(&s->questions, id);
        return false;
}

static bool on_progress(struct hub_server *s, const struct jsonrpc_message *m)
{
        return hub_calls_progress(&s->calls, m->params);
}

static bool on_log(struct hub_server *s, const struct jsonrpc_message *m)
{
        if (rate_allow(&s->unnamed, 1, NULL))
                hub_calls_log(&s->calls, m->params);
        return false;
}

/* MCP 2026-07-28 has no such notification. */
static bool on_page_done(struct hub_server *s, const struct jsonrpc_message *m)
{
        size_t n = 0;
        const char *id = json_string(m->params, "elicitationId", &n);
        const struct hub_host *owner = s->host->owner;

        if (id && !is_modern(s) && rate_allow(&s->unnamed, 1, NULL) && owner->page_done)
                owner->page_done(owner->data, s->config->name, s->principal, id, n);
        return false;
}

void hub_server_take_capabilities(struct hub_server *s, yyjson_val *capabilities)
{
        yyjson_val *tasks = yyjson_obj_get(capabilities, "tasks");

        s->has_tools = !capabilities || yyjson_obj_get(capabilities, "tools");
        s->has_tasks = s->handshake.speaks == HUB_ERA_LEGACY &&
                       yyjson_is_obj(yyjson_ptr_get(tasks, "/requests/tools/call"));
        s->cancels_tasks = yyjson_is_obj(yyjson_obj_get(tasks, "cancel"));
        s->has_resources = yyjson_is_obj(yyjson_obj_get(capabilities, "resources"));
        s->has_prompts = yyjson_is_obj(yyjson_obj_get(capabilities, "prompts"));
        s->has_logging = yyjson_is_obj(yyjson_obj_get(capabilities, "logging"));
}

/* The requests and notifications that a server may send, and in which states, besides requests for our
 * client. Other requests are refused, other notifications ignored. */
static const struct {
        const char *method;
        unsigned states;    /* bits 1 << enum server_state */
        const char *result; /* of a request */
        /* Returns whether it was expected. */
        bool (*notification)(struct hub_server *s, const struct jsonrpc_message *m);
} methods[] = {
        {"ping", ~0U, "{}", NULL},
        {"notifications/tools/list_changed", 1U << SERVER_LISTING | 1U << SERVER_READY, NULL,
         on_changed},
        {"notifications/subscriptions/acknowledged", 1U << SERVER_LISTING | 1U << SERVER_READY,
         NULL, on_acknowledged},
        {"notifications/progress", 1U << SERVER_READY, NULL, on_progress},
        {"notifications/message", 1U << SERVER_READY, NULL, on_log},
        {"notifications/elicitation/complete", 1U << SERVER_READY, NULL, on_page_done},
        {"notifications/cancelled", 1U << SERVER_LISTING | 1U << SERVER_READY, NULL, on_cancelled},
};

static bool on_notification(struct hub_server *s, const struct jsonrpc_message *m)
{
        bool expected = false;

        for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
                if (methods[i].notification && jsonrpc_method_is(m, methods[i].method) &&
                    methods[i].states & 1U << s->state)
                        expected = methods[i].notification(s, m);
        }
        return expected;
}

static void on_request(struct hub_server *s, const struct jsonrpc_message *m)
{
        const char *result = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
                if (methods[i].result && jsonrpc_method_is(m, methods[i].method) &&
                    methods[i].states & 1U << s->state)
                        result = methods[i].result;
        }
        /* MCP 2026-07-28 has no requests of servers, and forbids to answer one. */
        if (is_modern(s)) {
                if (connection_may_warn(&s->connection))
                        log_warning(
                                "server %s: skipped a request: a server of MCP 2026-07-28 may not send one",
                                s->config->name);
                return;
        }
        if (result)
                connection_respond(&s->connection, m->id, result, NULL);
        else if (!on_ask(s, m))
                connection_refuse(&s->connection, m->id, JSONRPC_METHOD_NOT_FOUND,
                                  "Method not found");
}

/* An answer to no open request: to one that was given up or is answered already, or to none that was
 * ever sent. */
static void on_stray(struct hub_server *s, yyjson_val *id, yyjson_val *result)
{
        int64_t n;

        if (!id || json_int64(id, &n) < 0 || n < 1 || n > s->connection.last_id) {
                if (connection_may_warn(&s->connection))
                        log_warning("server %s: skipped an answer to a request that was not sent",
                                    s->config->name);
                return;
        }
        hub_calls_orphan(&s->calls, n, result);
        log_debug("server %s: skipped a late or repeated answer to request %lld", s->config->name,
                  (long long)n);
}

/* The server requires other headers than its last list has (MCP 2026-07-28, "Custom Headers from Tool
 * Parameters"). Returns whether the call waits for the next list. */
static bool list_again(struct hub_server *s, struct hub_call *call, const struct jsonrpc_message *m)
{
        if (!s->is_refusal || s->state != SERVER_READY || !is_modern(s) ||
            m->kind != JSONRPC_ERROR || m->error_code != HEADER_MISMATCH ||
            !hub_call_await_list(call))
                return false;
        listing_changed(&s->listing);
        return true;
}

/* Returns whether it was expected. large: what the message came in, or NULL. */
static bool on_answer(struct hub_server *s, struct jsonrpc_message *m, struct large_line *large)
{
        int64_t id;

        if (m->id && json_int64(m->id, &id) == 0)
                connection_answered(&s->connection, id);
        if (handshake_on_answer(&s->handshake, m) || listing_on_answer(&s->listing, m))
                return true;
        struct hub_call *call = hub_calls_find(&s->calls, m->id);
        if (call && list_again(s, call, m))
                return true;
        if (call)
                hub_call_answer(call, m, is_modern(s), large);
        else if (m->id)
                on_stray(s, m->id, m->result);
        else if (m->kind == JSONRPC_ERROR && connection_may_warn(&s->connection))
                log_warning("server %s: reports an error without naming a request: %.200s (%lld)",
                            s->config->name, m->error_message, (long long)m->error_code);
        return call != NULL;
}

static const char *place(const struct hub_server *s)
{
        return connection_is_http(&s->connection) ? "a part of a response" : "a line on stdout";
}

/* JSON, but not JSON-RPC. If it has the id of a request, no other answer to that is expected. */
static bool on_invalid(struct hub_server *s, const struct jsonrpc_message *m,
                       const struct error *why)
{
        struct hub_call *call = m->id ? hub_calls_find(&s->calls, m->id) : NULL;
        char failure[sizeof(why->text) + 64];

        if (call) {
                hub_call_answer_invalid(call, why->text);
                return true;
        }
        if (handshake_on_invalid(&s->handshake, m->id, why->text))
                return true;
        if (listing_awaits(&s->listing, m->id)) {
                snprintf(failure, sizeof(failure), "gave no valid answer to tools/list: %s",
                         why->text);
                connection_fail(&s->connection, failure);
                return true;
        }
        if (connection_may_warn(&s->connection))
                log_warning("server %s: skipped %s: %s", s->config->name, place(s), why->text);
        return false;
}

static bool on_message(struct hub_server *s, struct jsonrpc_message *m, struct large_line *large)
{
        switch (m->kind) {
        case JSONRPC_REQUEST:
                on_request(s, m);
                return false;
        case JSONRPC_NOTIFICATION:
                return on_notification(s, m);
        case JSONRPC_RESPONSE:
        case JSONRPC_ERROR:
                return on_answer(s, m, large);
        default:
                return false;
        }
}

/* An answer outlives its batch: each element becomes a separate message. */
static bool on_batch_element(struct hub_server *s, yyjson_val *element)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(LINES_MAX);
        _cleanup_jsonrpc_ struct jsonrpc_message m = {};
        struct error err = {};

        if (yyjson_is_arr(element) || json_append(&text, element) < 0)
                return false;
        int r = jsonrpc_parse(buffer_bytes(&text), text.length, &m, &err);
        return r < 0 ? on_invalid(s, &m, &err) : on_message(s, &m, NULL);
}

static bool on_batch(struct hub_server *s, yyjson_val *batch)
{
        size_t i, n;
        yyjson_val *element;
        bool expected = false;

        yyjson_arr_foreach (batch, i, n, element)
                expected |= on_batch_element(s, element);
        return expected;
}

/* call: the one that the line seems to answer, or NULL. */
static bool on_not_json(struct hub_server *s, struct hub_call *call, const char *line, size_t n,
                        const struct error *why)
{
        if (call)
                hub_call_answer_invalid(call, why->text);
        else if (connection_may_warn(&s->connection))
                log_warning("server %s: skipped %s that is not a message (%s): %.*s",
                            s->config->name, place(s), why->text,
                            (int)utf8_cut(line, n, LOGGED_BYTES), line);
        return call != NULL;
}

static const struct secret_mask *mask_of(const struct hub_server *s)
{
        const struct secret_mask *mask = s->host->owner->mask;

        return secret_mask_is_for(mask, s->config->name) ? mask : NULL;
}

/* Appends the message without secrets. Returns 1, or 0: it has none, or is not JSON. */
static int mask_line(const struct hub_server *s, const char *line, size_t n, struct buffer *to)
{
        _cleanup_json_ yyjson_doc *doc = NULL;

        if (json_parse(line, n, &doc, NULL) < 0)
                return 0;
        return secret_mask_json(mask_of(s), s->config->name, yyjson_doc_get_root(doc), to);
}

/* Without memory for its check it is dropped. */
static bool on_unchecked(struct hub_server *s)
{
        if (connection_may_warn(&s->connection))
                log_warning("server %s: skipped a message: no memory to search it for secrets",
                            s->config->name);
        return false;
}

/* It would take too long. */
static bool on_unsearched(struct hub_server *s, const struct jsonrpc_message *m)
{
        struct error why = {};

        static_assert(MASKED_MAX == 4 << 20, "as in the text");
        error_set(&why, EMSGSIZE, "it has more than 4 MiB, and the server has a secret");
        return on_invalid(s, m, &why);
}

static bool take_line(struct hub_server *s, const char *line, size_t n);

bool hub_server_on_line(void *data, const char *line, size_t n)
{
        _cleanup_buffer_ struct buffer masked = BUFFER_INIT(LINES_MAX);
        struct hub_server *s = data;

        int r = mask_of(s) ? mask_line(s, line, n, &masked) : 0;
        if (r < 0)
                return on_unchecked(s);
        return r > 0 ? take_line(s, buffer_bytes(&masked), masked.length) : take_line(s, line, n);
}

static bool take_line(struct hub_server *s, const char *line, size_t n)
{
        _cleanup_jsonrpc_ struct jsonrpc_message m = {};
        struct error err = {};

        int r = jsonrpc_parse(line, n, &m, &err);
        if (r == -EINVAL || r == -ENOTUNIQ)
                return on_invalid(s, &m, &err);
        if (r < 0)
                return on_not_json(s, hub_calls_guess(&s->calls, line, n), line, n, &err);
        return m.kind == JSONRPC_BATCH ? on_batch(s, m.batch) : on_message(s, &m, NULL);
}

void hub_server_on_refused(void *data, const char *line, size_t n)
{
        struct hub_server *s = data;

        s->is_refusal = true;
        hub_server_on_line(s, line, n);
        s->is_refusal = false;
}

bool hub_server_on_large(void *data, struct large_line *line)
{
        _cleanup_buffer_ struct buffer masked = BUFFER_INIT(LINES_MAX);
        struct hub_server *s = data;
        struct jsonrpc_message *m = &line->message;

        if (line->r == -EINVAL || line->r == -ENOTUNIQ)
                return on_invalid(s, m, &line->err);
        if (line->r < 0)
                return on_not_json(s, line->has_id ? hub_calls_by_id(&s->calls, line->id) : NULL,
                                   buffer_bytes(&line->text), line->text.length, &line->err);
        if (mask_of(s) && (line->text.length > MASKED_MAX || line->memfd_length > MASKED_MAX))
                return on_unsearched(s, m);
        if (mask_of(s)) {
                int r = secret_mask_json(mask_of(s), s->config->name, yyjson_doc_get_root(m->doc),
                                         &masked);
                if (r != 0)
                        return r < 0 ? on_unchecked(s)
                                     : take_line(s, buffer_bytes(&masked), masked.length);
        }
        if (m->kind != JSONRPC_BATCH)
                return on_message(s, m, line);
        /* Each element would have to be written and parsed again. */
        if (connection_may_warn(&s->connection))
                log_warning("server %s: skipped a batch of more than %d KiB", s->config->name,
                            RESERVATION_MIN / 1024);
        return false;
}

const char *hub_server_masked(const struct hub_server *s, const char *text, struct buffer *to)
{
        if (!mask_of(s) ||
            secret_mask_text(mask_of(s), s->config->name, text, strlen(text), to) == 0)
                return text;
        /* A failure leaves no text. */
        return to->error >= 0 && buffer_append(to, "", 1) >= 0 ? buffer_bytes(to) : "";
}

void hub_server_on_unanswered(void *data, int64_t id, const char *why)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(LINES_MAX);
        _cleanup_buffer_ struct buffer masked = BUFFER_INIT(LINES_MAX);
        struct hub_server *s = data;
        struct hub_call *call = hub_calls_by_id(&s->calls, id);

        why = hub_server_masked(s, why, &masked);
        if (call) {
                hub_call_answer_none(call, why);
                return;
        }
        if (handshake_on_unanswered(&s->handshake, id, why) ||
            listing_on_unanswered(&s->listing, id, why))
                return;
        /* Any other request: as if the server had answered with an error. */
        struct json_out out = {.to = &text};
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "jsonrpc", "2.0");
        json_out_int(&out, "id", id);
        json_out_begin(&out, "error", '{');
        json_out_int(&out, "code", JSONRPC_INTERNAL_ERROR);
        json_out_text(&out, "message", why);
        json_out_end(&out, '}');
        json_out_end(&out, '}');
        if (out.error >= 0)
                hub_server_on_line(s, buffer_bytes(&text), text.length);
}

/* The beginning of a line of which the rest is skipped. what, why: for the log, and for the call that it answers. */
static void skip_line(struct hub_server *s, const char *line, size_t n, const char *what,
                      const char *why)
{
        struct hub_call *call = hub_calls_guess(&s->calls, line, n);

        if (connection_may_warn(&s->connection))
                log_warning("server %s: skipped a line %s", s->config->name, what);
        if (call)
                hub_call_answer_invalid(call, why);
}

void hub_server_on_late(void *data, const char *line, size_t n)
{
        static_assert(CONNECTION_LINE_MS == 30000 && RESERVATION_LINES_MS == 1000,
                      "as in the text");

        skip_line(data, line, n,
                  "that was not complete after 30 s, or 1 s while other servers waited",
                  "it was not complete after 30 s, or a second while other servers waited");
}

void hub_server_on_oversized(void *data, const char *line, size_t n)
{
        static_assert(LINES_MAX == 64 << 20, "as in the text");

        skip_line(data, line, n, "of more than 64 MiB", "it is larger than 64 MiB");
}
