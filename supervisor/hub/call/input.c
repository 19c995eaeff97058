/* The requests of a call's server to the call's client. */
#include "supervisor/hub/call/input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json-out.h"

enum { URL_ELICITATION_REQUIRED = -32042, WHAT_MAX = CLIENT_URL_MAX + 64, MESSAGE_SHOWN = 400 };

/* Ends a question. The time of the call continues after the last one. */
static void end(struct hub_call *call, struct question *q)
{
        question_end(q);
        if (call->questions.n == 0)
                hub_call_release(call);
}

static void respond(struct hub_call *call, yyjson_val *id, const char *result, const char *why)
{
        call->calls->host->respond(call->calls->data, id, result, why);
}

/* ---- requests that cannot be met ---- */

/* Keeps {"method": …, "params": …} of the request, for the code. */
static void keep_request(struct hub_call *call, const struct client_request *request)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(2 * CLIENT_SAMPLE_MAX);
        yyjson_doc *doc = NULL;

        struct json_out out = {.to = &text};
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "method", client_request_method(request));
        json_out_raw(&out, "params", buffer_bytes(&request->params), request->params.length);
        json_out_end(&out, '}');
        int r = out.error < 0 ? out.error
                              : json_parse(buffer_bytes(&text), text.length, &doc, NULL);
        if (r < 0)
                return;
        call->answer.doc = doc;
        call->result.rpc_data = yyjson_doc_get_root(doc);
}

/* Ends the call. event: the server has answered, or its request must be cancelled. */
static void give_up(struct hub_call *call, enum call_event event,
                    const struct client_request *request, const char *why)
{
        const char *message = client_request_message(request);
        char what[WHAT_MAX];

        client_request_describe(request, what, sizeof(what));
        keep_request(call, request);
        /* The name of the server is the beginning of the message. */
        hub_call_finish(call, event, HUB_INPUT,
                        "server \"%s\" %s before it continues, and %s%s%.*s", hub_call_server(call),
                        what, why, message ? "; " : "", MESSAGE_SHOWN, message ? message : "");
}

static const char *lacks(unsigned needs)
{
        if (needs & CLIENT_CAN_FORM)
                return "this client does not take questions (it declares no elicitation)";
        if (needs & CLIENT_CAN_URL)
                return "this client does not open addresses (it declares no elicitation of mode url): a person has to";
        if (needs & CLIENT_CAN_ROOTS)
                return "this client declares no roots";
        return "this client declares no sampling of this kind";
}

/* Why the client cannot be asked, or NULL. */
static const char *obstacle(const struct hub_call *call, const struct client_request *request)
{
        struct hub_client client;

        if (!hub_call_client(call, &client) || !call->caller->ask)
                return "there is no client that could be asked";
        return (client.can & request->needs) == request->needs ? NULL : lacks(request->needs);
}

/* ---- asking ---- */

static void on_answered(void *data, struct question *q, yyjson_val *answer, const char *result,
                        const char *why);

/* Takes the request, and in any case id and key. Returns 0, or negative errno and why; the request stays with
 * the caller then. */
static int ask_client(struct hub_call *call, struct client_request *request, yyjson_doc *id,
                      char *key, struct error *err)
{
        struct question *q = questions_add(&call->questions, request, hub_call_server(call), id,
                                           key);

        if (!q)
                return error_errno(err, ENOMEM, "ask");
        call->questions.answered = on_answered;
        int r = call->caller->ask(call->data, &q->ask, err);
        if (r < 0) {
                question_refused(q, request);
                return r;
        }
        call->n_asked++;
        if (call->questions.n == 1)
                hub_call_hold(call);
        return 0;
}

/* ---- answers ---- */

/* Keeps an answer as a member of inputResponses. */
static int keep_answer(struct hub_call *call, const char *key, const char *result)
{
        struct buffer *b = &call->answers;
        int r = b->length > 0 ? buffer_append(b, ",", 1) : 0;

        if (r >= 0)
                r = json_append_string(b, key, strlen(key));
        if (r >= 0)
                r = buffer_append(b, ":", 1);
        return r < 0 ? r : buffer_append_text(b, result);
}

static void go_on(struct hub_call *call)
{
        if (call->questions.n == 0)
                call->answered(call);
}

/* The answer about an address that must be opened before the call (-32042). The call is not repeated: it is
 * not known when the person is done. */
static void end_url(struct hub_call *call, struct question *q, yyjson_val *answer, const char *why)
{
        bool accepts = yyjson_equals_str(yyjson_obj_get(answer, "action"), "accept");

        give_up(call, EVENT_ANSWERED, &q->ask.request,
                accepts ? "the person opens it: call again when that is done"
                : why   ? why
                        : "the person does not open it");
}

/* For a modern server, a person who does not answer has cancelled the question. */
static void take_modern(struct hub_call *call, struct question *q, const char *result,
                        const char *why)
{
        enum client_request_kind kind = q->ask.request.kind;

        if (why && kind != CLIENT_FORM && kind != CLIENT_URL) {
                give_up(call, EVENT_ANSWERED, &q->ask.request, why);
                return;
        }
        int r = keep_answer(call, q->key, why ? "{\"action\":\"cancel\"}" : result);
        end(call, q);
        if (r < 0)
                hub_call_answer_invalid(call, "the answers to it are too large");
        else
                go_on(call);
}

static void on_answered(void *data, struct question *q, yyjson_val *answer, const char *result,
                        const char *why)
{
        struct hub_call *call = data;

        if (!q->id && !q->key) {
                end_url(call, q, answer, why);
        } else if (q->key) {
                take_modern(call, q, result, why);
        } else {
                respond(call, yyjson_doc_get_root(q->id), result, why);
                end(call, q);
        }
}

/* ---- legacy servers ---- */

void hub_call_ask(struct hub_call *call, struct client_request *request, yyjson_val *id)
{
        const char *why = obstacle(call, request);
        struct error err = {};
        yyjson_doc *copy = NULL;

        if (call->n_asked >= CALL_ASKS_MAX) {
                respond(call, id, NULL, "the call has sent too many requests");
        } else if (call->questions.n >= CALL_ASKS_OPEN) {
                respond(call, id, NULL, "the call has too many open requests");
        } else if (why && (request->kind == CLIENT_ROOTS || request->kind == CLIENT_SAMPLE)) {
                respond(call, id, NULL, why);
        } else if (why) {
                respond(call, id, NULL, why);
                give_up(call, EVENT_ABANDONED, request, why);
        } else if (jsonrpc_id_copy(id, CLIENT_ASK_ID_MAX, &copy) < 0) {
                respond(call, id, NULL, "the id cannot be kept");
        } else if (ask_client(call, request, copy, NULL, &err) < 0) {
                respond(call, id, NULL, err.text);
                give_up(call, EVENT_ABANDONED, request, err.text);
        }
        client_request_done(request);
}

void hub_calls_unask(struct hub_calls *calls, yyjson_val *id)
{
        struct hub_call *call;

        for (size_t i = 0; i < BUCKETS; i++) {
                TAILQ_FOREACH (call, &calls->sent[i], link) {
                        if (!questions_withdraw(&call->questions, id))
                                continue;
                        if (call->questions.n == 0)
                                hub_call_release(call);
                        return;
                }
        }
}

/* ---- modern servers ---- */

/* Whether a task has asked under this name before; notes it otherwise. */
static bool was_asked(struct hub_call *call, const char *key)
{
        struct buffer *keys = &call->asked_keys;
        const char *at = keys->length > 0 ? buffer_bytes(keys) : "", *end = at + keys->length;

        for (; at < end; at += strlen(at) + 1) {
                if (strcmp(at, key) == 0)
                        return true;
        }
        return buffer_append(keys, key, strlen(key) + 1) < 0;
}

/* One input request. Returns whether the call continues; otherwise it has failed. */
static bool ask_one(struct hub_call *call, yyjson_val *name, yyjson_val *value)
{
        _cleanup_client_request_ struct client_request request = {};
        const char *key = yyjson_get_str(name);
        size_t n = 0;
        const char *method = json_string(value, "method", &n);
        struct error err = {};

        if (strlen(key) != yyjson_get_len(name) || yyjson_get_len(name) > CALL_ASK_KEY_MAX) {
                hub_call_answer_invalid(call, "the name of an input request is too long");
                return false;
        }
        if (call->n_asked >= CALL_ASKS_MAX) {
                hub_call_answer_invalid(call, "it asks for too much");
                return false;
        }
        if (call->task && was_asked(call, key))
                return true;
        int r = client_request_read(&request, hub_call_server(call), method ? method : "", n,
                                    yyjson_obj_get(value, "params"), &err);
        if (r < 0) {
                hub_call_finish(call, EVENT_ANSWERED, HUB_PROTOCOL,
                                "server \"%s\" asks for something that is not valid: %s",
                                hub_call_server(call), err.text);
                return false;
        }
        const char *why = obstacle(call, &request);
        char *copy = why ? NULL : strdup(key);
        if (!why && !copy)
                why = strerror(ENOMEM);
        if (!why && ask_client(call, &request, NULL, copy, &err) < 0)
                why = err.text;
        if (why)
                give_up(call, call->task ? EVENT_ABANDONED : EVENT_ANSWERED, &request, why);
        return !why;
}

void hub_call_ask_all(struct hub_call *call, yyjson_val *requests,
                      void (*answered)(struct hub_call *call))
{
        size_t i, n;
        yyjson_val *key, *value;

        hub_call_wait(call);
        call->answered = answered;
        yyjson_obj_foreach (requests, i, n, key, value) {
                if (!ask_one(call, key, value))
                        return;
        }
        go_on(call);
}

/* ---- addresses before a call ---- */

/* Only the first address: it is what the person has to open before anything else. */
bool hub_call_ask_urls(struct hub_call *call, struct jsonrpc_message *answer)
{
        _cleanup_client_request_ struct client_request request = {};
        yyjson_val *list = yyjson_obj_get(answer->error_data, "elicitations");
        yyjson_val *first = yyjson_arr_get_first(list);
        static const char method[] = "elicitation/create";
        struct error err = {};

        if (answer->error_code != URL_ELICITATION_REQUIRED || !first)
                return false;
        if (client_request_read(&request, hub_call_server(call), method, strlen(method), first,
                                &err) < 0 ||
            request.kind != CLIENT_URL) {
                hub_call_answer_invalid(call, "it requires an address that cannot be shown");
                return true;
        }
        const char *why = obstacle(call, &request);
        hub_call_wait(call);
        if (!why && ask_client(call, &request, NULL, NULL, &err) < 0)
                why = err.text;
        if (why)
                give_up(call, EVENT_ANSWERED, &request, why);
        return true;
}
