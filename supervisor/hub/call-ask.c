/*
 * What the server of a call asks of the call's client: input of a person, directories, a model's answer.
 *
 * A legacy server sends a request, and gets the response. A modern one answers the call with what it
 * wants to know, all at once, and is called again with the answers. Until then the time of the call stands
 * still; each answer has a time of its own. Who asks for what the client cannot give ends the call:
 * the error says what was asked for, so that the code, or who wrote it, can act.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "supervisor/hub/call-internal.h"

enum { URL_ELICITATION_REQUIRED = -32042, WHAT_MAX = CLIENT_URL_MAX + 64, MESSAGE_SHOWN = 400 };

static void ask_free(struct hub_ask *ask)
{
        event_del(&ask->deadline);
        client_request_done(&ask->ask.request);
        yyjson_doc_free(ask->id);
        free(ask->key);
        free(ask);
}

/* Takes it out of its call, whose time goes on after the last one. */
static void leave(struct hub_ask *ask)
{
        struct hub_call *call = ask->call;

        TAILQ_REMOVE(&call->asks, ask, link);
        if (--call->n_asks == 0)
                hub_call_release(call);
}

static void withdraw(struct hub_ask *ask)
{
        if (ask->ask.withdraw)
                ask->ask.withdraw(&ask->ask);
        leave(ask);
        ask_free(ask);
}

void hub_call_drop_asks(struct hub_call *call)
{
        struct hub_ask *ask;

        while ((ask = TAILQ_FIRST(&call->asks)))
                withdraw(ask);
}

static void respond(struct hub_call *call, yyjson_val *id, const char *result, const char *why)
{
        call->calls->host->respond(call->calls->data, id, result, why);
}

/* ---- what cannot be asked ---- */

/* {"method": …, "params": …} of what was asked for, for the code. */
static void keep_request(struct hub_call *call, const struct client_request *request)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(2 * CLIENT_SAMPLE_MAX);
        yyjson_doc *doc = NULL;

        int r = buffer_printf(&text,
                              "{\"method\":\"%s\",\"params\":", client_request_method(request));
        if (r >= 0)
                r = buffer_append(&text, buffer_bytes(&request->params), request->params.length);
        if (r >= 0)
                r = buffer_append(&text, "}", 1);
        if (r >= 0)
                r = json_parse(buffer_bytes(&text), text.length, &doc, NULL);
        if (r < 0)
                return;
        call->answer.doc = doc;
        call->result.rpc_data = yyjson_doc_get_root(doc);
}

/* Ends the call. event: the server has answered, or it has to be told. */
static void give_up(struct hub_call *call, enum call_event event,
                    const struct client_request *request, const char *why)
{
        const char *message = client_request_message(request);
        char what[WHAT_MAX];

        client_request_describe(request, what, sizeof(what));
        keep_request(call, request);
        /* The name of the server is the beginning of the message. */
        hub_call_finish(call, event, HUB_INPUT, "server \"%s\" %s before it goes on, and %s%s%.*s",
                        hub_call_server(call), what, why, message ? "; " : "", MESSAGE_SHOWN,
                        message ? message : "");
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

static void on_answered(struct client_ask *client_ask, yyjson_val *result, const char *why);

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
        struct hub_ask *ask = data;

        (void)fd;
        (void)what;
        if (ask->ask.withdraw)
                ask->ask.withdraw(&ask->ask);
        on_answered(&ask->ask, NULL, "nobody has answered in time");
}

/* Takes the request and the key. Returns 0, or negative errno and why; nothing is asked then. */
static int ask_client(struct hub_call *call, struct client_request *request, yyjson_doc *id,
                      char *key, struct error *err)
{
        const struct timeval in = clock_timeval_ms(CALL_ASK_MS);
        struct hub_ask *ask = calloc(1, sizeof(*ask));

        if (!ask) {
                client_request_done(request);
                yyjson_doc_free(id);
                free(key);
                return error_errno(err, ENOMEM, "ask");
        }
        *ask = (struct hub_ask){.ask = {.request = *request,
                                        .server = hub_call_server(call),
                                        .answered = on_answered},
                                .call = call,
                                .id = id,
                                .key = key};
        *request = (struct client_request){};
        evtimer_assign(&ask->deadline, event_get_base(&call->deadline), on_deadline, ask);
        int r = call->caller->ask(call->data, &ask->ask, err);
        if (r < 0) {
                *request = ask->ask.request;
                ask->ask.request = (struct client_request){};
                ask_free(ask);
                return r;
        }
        evtimer_add(&ask->deadline, &in);
        TAILQ_INSERT_TAIL(&call->asks, ask, link);
        call->n_asked++;
        if (call->n_asks++ == 0)
                hub_call_hold(call);
        return 0;
}

/* ---- answers ---- */

static int keep_answer(struct hub_ask *ask, const struct buffer *result)
{
        struct buffer *b = &ask->call->answers;
        int r = b->length > 0 ? buffer_append(b, ",", 1) : 0;

        if (r >= 0)
                r = json_append_string(b, ask->key, strlen(ask->key));
        if (r >= 0)
                r = buffer_append(b, ":", 1);
        return r < 0 ? r : buffer_append(b, buffer_bytes(result), result->length);
}

/* A modern server is told of a person who does not answer as of one who closes the question. */
static int make_cancel(const struct client_request *request, struct buffer *to)
{
        if (request->kind != CLIENT_FORM && request->kind != CLIENT_URL)
                return -EINVAL;
        return buffer_append_text(to, "{\"action\":\"cancel\"}");
}

static void go_on(struct hub_call *call)
{
        if (call->n_asks > 0)
                return;
        if (call->task)
                hub_call_update_task(call);
        else
                hub_call_again(call);
}

/* Of an address that had to be opened before the call (-32042). The call is not repeated: whether the
 * person is done is not known. */
static void end_url(struct hub_ask *ask, yyjson_val *answer, const char *why)
{
        struct hub_call *call = ask->call;
        bool accepts = yyjson_equals_str(yyjson_obj_get(answer, "action"), "accept");

        give_up(call, EVENT_ANSWERED, &ask->ask.request,
                accepts ? "the person who was asked opens it: call again when that is done"
                : why   ? why
                        : "the person who was asked does not open it");
}

static void take_modern(struct hub_ask *ask, const struct buffer *result, const char *why)
{
        _cleanup_buffer_ struct buffer cancel = BUFFER_INIT(CLIENT_FORM_MAX);
        struct hub_call *call = ask->call;

        if (why && make_cancel(&ask->ask.request, &cancel) < 0) {
                give_up(call, EVENT_ANSWERED, &ask->ask.request, why);
                return;
        }
        int r = keep_answer(ask, why ? &cancel : result);
        leave(ask);
        ask_free(ask);
        if (r < 0)
                hub_call_answer_invalid(call, "the answers to it are too large");
        else
                go_on(call);
}

/* The taker has forgotten the ask. */
static void on_answered(struct client_ask *client_ask, yyjson_val *answer, const char *why)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(CLIENT_ANSWER_MAX);
        struct hub_ask *ask = (struct hub_ask *)client_ask;
        struct hub_call *call = ask->call;
        struct error err = {};

        client_ask->withdraw = NULL;
        if (answer && client_answer_take(&client_ask->request, answer, &result, &err) < 0)
                why = error_is_set(&err) ? err.text : strerror(ENOMEM);
        if (!ask->id && !ask->key) {
                end_url(ask, why ? NULL : answer, why);
                return;
        }
        if (ask->key) {
                take_modern(ask, &result, why);
                return;
        }
        if (!why && buffer_append(&result, "", 1) < 0)
                why = "the answer is too large";
        respond(call, yyjson_doc_get_root(ask->id), why ? NULL : buffer_bytes(&result), why);
        leave(ask);
        ask_free(ask);
}

/* ---- legacy servers ---- */

void hub_call_ask(struct hub_call *call, struct client_request *request, yyjson_val *id)
{
        const char *why = obstacle(call, request);
        struct error err = {};
        yyjson_doc *copy = NULL;

        if (call->n_asked >= CALL_ASKS_MAX) {
                respond(call, id, NULL, "the call has asked for too much");
        } else if (call->n_asks >= CALL_ASKS_OPEN) {
                respond(call, id, NULL, "the call asks for too much at once");
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
        struct hub_ask *ask;

        for (size_t i = 0; i < BUCKETS; i++) {
                TAILQ_FOREACH (call, &calls->sent[i], link) {
                        TAILQ_FOREACH (ask, &call->asks, link) {
                                if (jsonrpc_id_equals(yyjson_doc_get_root(ask->id), id)) {
                                        withdraw(ask);
                                        return;
                                }
                        }
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

/* One input request. Returns whether the call goes on; else it has failed. */
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

void hub_call_ask_all(struct hub_call *call, yyjson_val *requests)
{
        size_t i, n;
        yyjson_val *key, *value;

        hub_call_wait(call);
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
