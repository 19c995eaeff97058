/* The answer of a server to a call, and its requests to the client. */
#include "supervisor/hub/call/answer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json-out.h"
#include "rpc/lines.h"

/*
 * ---- requests to the call's client ----
 *
 * Input of a person, directories, an answer of a model. A legacy server sends a request, and gets the response. A
 * modern server answers the call with all that it asks for, and is called again with the answers. Until then the time
 * of the call stands still; each question has its own deadline. A server that requests a capability which the client
 * lacks ends the call. The error says what the server requested, so that the code, or the author of the code, can act.
 */

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
static int keep_response(struct hub_call *call, const char *key, const char *result)
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
        int r = keep_response(call, q->key, why ? "{\"action\":\"cancel\"}" : result);
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

/* Asks the client for all of these input requests, except those of call->asked_keys. Calls answered() when
 * none is open any more, perhaps before it returns. */
static void ask_all(struct hub_call *call, yyjson_val *requests,
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

/* The server's error says which addresses must be opened first (-32042). Returns whether it is such an error: the call
 * continues then, or has ended. Only the first address: it is what the person has to open before anything else. */
static bool ask_urls(struct hub_call *call, struct jsonrpc_message *answer)
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

/* ---- results and errors ---- */

/* The line that holds it is overwritten when the next one is read. */
static void keep_text(struct hub_call *call, const char *text, size_t n)
{
        call->text = text ? malloc(n) : NULL;
        if (!call->text)
                return;
        memcpy(call->text, text, n);
        call->result.text = call->text;
        call->result.text_length = n;
}

static void keep_answer(struct hub_call *call, struct jsonrpc_message *answer)
{
        call->answer = *answer;
        *answer = (struct jsonrpc_message){};
}

static const char *fault_of(const struct hub_call *call, yyjson_val *result)
{
        if (call->tool)
                return hub_result_fault(result);
        return yyjson_is_obj(result) ? NULL : "the result is not an object";
}

/* The result is the answer, or a part of it. large: the line that the answer was received in, whose memfd is taken; or
 * NULL. */
static void take_result(struct hub_call *call, struct jsonrpc_message *answer, yyjson_val *result,
                        struct large_line *large)
{
        const char *fault = fault_of(call, result);

        if (fault) {
                hub_call_answer_invalid(call, fault);
                return;
        }
        if (result == answer->result)
                keep_text(call, answer->text, answer->text_length);
        if (large && large->memfd >= 0) {
                call->memfd = take_fd(large->memfd);
                call->result.memfd = &call->memfd;
                call->result.memfd_length = large->memfd_length;
        }
        keep_answer(call, answer);
        call->answer.text = NULL;
        call->result.outcome = HUB_OK;
        call->result.result = result;
        hub_call_step(call, EVENT_ANSWERED);
}

/* An error of JSON-RPC. message and data: of the answer; data may be NULL. */
static void take_failure(struct hub_call *call, struct jsonrpc_message *answer, int64_t code,
                         const char *message, yyjson_val *data)
{
        keep_answer(call, answer);
        call->result.outcome = HUB_PROTOCOL;
        call->result.rpc_code = code;
        call->result.rpc_data = data;
        call->result.message = message;
        hub_call_step(call, EVENT_ANSWERED);
}

/* An error of JSON-RPC, as an object that is a part of the answer. */
static void take_error(struct hub_call *call, struct jsonrpc_message *answer, yyjson_val *error)
{
        const char *message = json_string(error, "message", NULL);
        int64_t code = 0;

        if (json_int64(yyjson_obj_get(error, "code"), &code) < 0)
                hub_call_answer_invalid(call, "the error of the task has no code");
        else
                take_failure(call, answer, code, message ? message : "",
                             yyjson_obj_get(error, "data"));
}

/* ---- further rounds ---- */

/* Counts a round. Returns false if there were CALL_ROUNDS_MAX, or the arguments were not kept: the call has
 * failed then. */
static bool may_repeat(struct hub_call *call)
{
        if (call->rounds == CALL_ROUNDS_MAX) {
                hub_call_finish(call, EVENT_ANSWERED, HUB_PROTOCOL,
                                "server \"%s\" asks to be called again more than %d times",
                                hub_call_server(call), CALL_ROUNDS_MAX);
                return false;
        }
        if (call->params.bytes.length == 0) {
                hub_call_finish(
                        call, EVENT_ANSWERED, HUB_PROTOCOL,
                        "server \"%s\" asks to be called again, and the arguments of other calls left no room to keep these",
                        hub_call_server(call));
                return false;
        }
        call->rounds++;
        return true;
}

/* The server gets its state exactly as it wrote it ("Multi Round-Trip Requests", "Client
 * Requirements"). The call's deadline is for all rounds. */
static void send_again(struct hub_call *call)
{
        const struct call_params *before = &call->params;
        struct call_params params = {.bytes = BUFFER_INIT(LINES_MAX)};
        struct json_out out = {.to = &params.bytes};
        const struct buffer *answers = &call->answers, *state = &call->server_state;

        json_out_begin(&out, NULL, '{');
        if (answers->length > 0) {
                json_out_begin(&out, "inputResponses", '{');
                json_out_raw(&out, NULL, buffer_bytes(answers), answers->length);
                json_out_end(&out, '}');
        }
        if (state->length > 0)
                json_out_raw(&out, "requestState", buffer_bytes(state), state->length);
        /* The members of the request, and its closing brace. */
        if (before->bytes.length <= 2)
                out.more = false;
        json_out_raw(&out, NULL, buffer_bytes(&before->bytes) + 1, before->bytes.length - 1);
        if (before->text) {
                params.text = shared_text_ref(before->text);
                params.after = before->after;
        }
        buffer_consume(&call->answers, call->answers.length);
        if (out.error >= 0)
                hub_call_go_on(call, call->method, &params);
        else
                hub_call_finish(call, EVENT_ANSWERED, HUB_PROTOCOL,
                                "cannot call server \"%s\" again with its state: %s",
                                hub_call_server(call), strerrordesc_np(-out.error));
        call_params_done(&params);
}

bool hub_call_await_list(struct hub_call *call)
{
        if (!call->tool || call->step != STEP_CALL || call->rounds > 0 || call->has_awaited ||
            call->params.bytes.length == 0)
                return false;
        call->awaits_list = call->has_awaited = true;
        hub_call_wait(call);
        return true;
}

void hub_calls_listed(struct hub_calls *calls, const char *why)
{
        struct hub_call *call, *next;

        /* They have no request. */
        for (call = TAILQ_FIRST(bucket(calls, 0)); call; call = next) {
                next = TAILQ_NEXT(call, link);
                if (!call->awaits_list)
                        continue;
                call->awaits_list = false;
                if (why)
                        hub_call_finish(
                                call, EVENT_ANSWERED, HUB_PROTOCOL,
                                "server \"%s\" refused the headers of the call, and %s when its tools were requested again",
                                hub_call_server(call), why);
                else
                        send_again(call);
        }
}

/*
 * ---- tasks ----
 *
 *                 legacy (2025-11-25)                 modern (io.modelcontextprotocol/tasks)
 *     working         tasks/get after the interval that the server gives
 *     input_required  tasks/result; the server asks   inputRequests; tasks/update with the answers
 *     completed       tasks/result                    has the result
 *     failed          tasks/result                    has the error
 *     cancelled       the call fails
 */

static void on_poll(evutil_socket_t fd, short what, void *data);

/* Takes the id. Returns 0, -EINVAL, -ENOMEM. */
static int name_task(struct hub_call *call, yyjson_val *id)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(8 * CALL_TASK_ID_MAX);

        int r = hub_call_append_task(&params, id);
        if (r < 0)
                return r;
        call->task = strdup(buffer_bytes(&params));
        if (!call->task)
                return -ENOMEM;
        call->calls->n_tasks++;
        call->poll_ms = CALL_POLL_MS;
        evtimer_assign(&call->poll, event_get_base(&call->deadline), on_poll, call);
        return 0;
}

static void request(struct hub_call *call, enum call_step step, const char *method)
{
        /* Borrowed. */
        const struct call_params params = {
                .bytes = {.data = call->task, .length = strlen(call->task), .limit = SIZE_MAX}};

        call->step = step;
        hub_call_go_on(call, method, &params);
}

static void on_poll(evutil_socket_t fd, short what, void *data)
{
        request(data, STEP_GET, "tasks/get");
}

static void poll_later(struct hub_call *call)
{
        const struct timeval in = clock_timeval_ms(call->poll_ms);

        hub_call_wait(call);
        evtimer_add(&call->poll, &in);
}

static void take_interval(struct hub_call *call, yyjson_val *task)
{
        yyjson_val *legacy = yyjson_obj_get(task, "pollInterval");
        int64_t ms;

        if (json_int64(legacy ? legacy : yyjson_obj_get(task, "pollIntervalMs"), &ms) < 0)
                return;
        call->poll_ms = (uint32_t)(ms < CALL_POLL_MIN_MS   ? CALL_POLL_MIN_MS
                                   : ms > CALL_POLL_MAX_MS ? CALL_POLL_MAX_MS
                                                           : ms);
}

static void report(struct hub_call *call, yyjson_val *task)
{
        struct hub_progress progress = {};

        progress.message = json_string(task, "statusMessage", &progress.length);
        if (progress.message && call->caller->progress)
                call->caller->progress(call->data, &progress);
}

static bool is_modern(const struct hub_call *call)
{
        return call->calls->host->is_modern(call->calls->data);
}

static void fail_cancelled(struct hub_call *call, yyjson_val *task)
{
        const char *why = json_string(task, "statusMessage", NULL);

        hub_call_finish(call, EVENT_ANSWERED, HUB_PROTOCOL,
                        "server \"%s\" cancelled the task%s%.200s", hub_call_server(call),
                        why ? ": " : "", why ? why : "");
}

/* A modern task has its outcome in it. */
static void take_end(struct hub_call *call, struct jsonrpc_message *answer, yyjson_val *task)
{
        yyjson_val *result = yyjson_obj_get(task, "result"), *error = yyjson_obj_get(task, "error");

        if (result)
                take_result(call, answer, result, NULL);
        else if (error)
                take_error(call, answer, error);
        else
                hub_call_answer_invalid(call, "the task has ended without a result");
}

/* All input that the task asked for is answered. */
static void update(struct hub_call *call)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(call->answers.limit);

        if (call->answers.length == 0) {
                poll_later(call);
                return;
        }
        struct json_out out = {.to = &params};
        /* The task without its closing brace. */
        json_out_raw(&out, NULL, call->task, strlen(call->task) - 1);
        json_out_begin(&out, "inputResponses", '{');
        json_out_raw(&out, NULL, buffer_bytes(&call->answers), call->answers.length);
        json_out_end(&out, '}');
        json_out_end(&out, '}');
        buffer_consume(&call->answers, call->answers.length);
        call->step = STEP_UPDATE;
        if (out.error >= 0)
                hub_call_go_on(call, "tasks/update", &(struct call_params){.bytes = params});
        else
                hub_call_answer_invalid(call, "the answers to it are too large");
}

static void take_status(struct hub_call *call, struct jsonrpc_message *answer, yyjson_val *task)
{
        const char *status = json_string(task, "status", NULL);
        /* The answer that makes a modern task says no more, even if the task has ended. */
        bool is_first = is_modern(call) && call->step == STEP_CALL;

        take_interval(call, task);
        report(call, task);
        call->task_ended = book_task_ended(task);
        if (!status)
                hub_call_answer_invalid(call, "the task has no status");
        else if (strcmp(status, "working") == 0 || is_first)
                poll_later(call);
        else if (strcmp(status, "cancelled") == 0)
                fail_cancelled(call, task);
        else if (strcmp(status, "input_required") == 0 && is_modern(call))
                ask_all(call, yyjson_obj_get(task, "inputRequests"), update);
        else if (strcmp(status, "completed") != 0 && strcmp(status, "failed") != 0 &&
                 strcmp(status, "input_required") != 0)
                hub_call_answer_invalid(call, "the task has an unknown status");
        else if (!is_modern(call))
                request(call, STEP_RESULT, "tasks/result");
        else
                take_end(call, answer, task);
}

/* If the answer creates a task, takes it. Returns whether it does: the call continues then, or has ended. */
static bool begin_task(struct hub_call *call, struct jsonrpc_message *answer, bool modern)
{
        yyjson_val *result = answer->result;
        yyjson_val *task = modern ? result : yyjson_obj_get(result, "task");

        if (call->task || !call->tool)
                return false;
        if (modern ? !yyjson_equals_str(yyjson_obj_get(result, "resultType"), "task")
                   : !call->is_task || !task)
                return false;
        if (name_task(call, yyjson_obj_get(task, "taskId")) < 0)
                hub_call_answer_invalid(call, "the task has no usable id");
        else
                take_status(call, answer, task);
        return true;
}

/* The answer to a request about the task. */
static void take_task_answer(struct hub_call *call, struct jsonrpc_message *answer)
{
        if (call->step == STEP_UPDATE)
                poll_later(call);
        else if (!yyjson_is_obj(answer->result))
                hub_call_answer_invalid(call, "the task is not an object");
        else
                take_status(call, answer, answer->result);
}

/* ---- answers ---- */

static void take_input_required(struct hub_call *call, yyjson_val *result)
{
        yyjson_val *requests = yyjson_obj_get(result, "inputRequests"),
                   *state = yyjson_obj_get(result, "requestState");

        if (!yyjson_is_str(state) && yyjson_obj_size(requests) == 0) {
                hub_call_answer_invalid(call, "it asks for input, but names no input request");
                return;
        }
        if (!may_repeat(call))
                return;
        buffer_consume(&call->server_state, call->server_state.length);
        if (yyjson_is_str(state) && json_append(&call->server_state, state) < 0)
                hub_call_answer_invalid(call, "its requestState cannot be kept");
        else if (yyjson_obj_size(requests) > 0)
                ask_all(call, requests, send_again);
        else
                send_again(call);
}

/* MCP 2026-07-28: a result may also ask for input. Returns whether the call does not end with it as a
 * result. */
static bool take_incomplete(struct hub_call *call, yyjson_val *result)
{
        const char *type = json_string(result, "resultType", NULL);

        if (!type || strcmp(type, "complete") == 0)
                return false;
        if (strcmp(type, "input_required") == 0)
                take_input_required(call, result);
        else
                hub_call_finish(
                        call, EVENT_ANSWERED, HUB_PROTOCOL,
                        "server \"%s\" answered with a result of type \"%.40s\", which Cloister does not support",
                        hub_call_server(call), type);
        return true;
}

void hub_call_answer(struct hub_call *call, struct jsonrpc_message *answer, bool is_modern,
                     struct large_line *large)
{
        bool is_about_task = call->step == STEP_GET || call->step == STEP_UPDATE;

        call->task_ended |= call->step == STEP_RESULT;
        if (answer->kind == JSONRPC_RESPONSE) {
                if (is_about_task)
                        take_task_answer(call, answer);
                else if (!begin_task(call, answer, is_modern) &&
                         !(is_modern && take_incomplete(call, answer->result)))
                        take_result(call, answer, answer->result, large);
        } else if (!ask_urls(call, answer)) {
                take_failure(call, answer, answer->error_code, answer->error_message,
                             answer->error_data);
        }
}
