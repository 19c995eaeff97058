/* The answer of a server to a call. */
#include "supervisor/hub/call/answer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json-out.h"
#include "rpc/lines.h"
#include "supervisor/hub/call/input.h"

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

/* Of a long line, the result is in a memfd, or its text in the line. */
static void keep_large(struct hub_call *call, struct large_line *large)
{
        if (large->memfd >= 0) {
                call->memfd = take_fd(large->memfd);
                call->result.memfd = &call->memfd;
                call->result.memfd_length = large->memfd_length;
        }
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

/* The result is a part of the answer. */
static void take_result(struct hub_call *call, struct jsonrpc_message *answer, yyjson_val *result)
{
        const char *fault = fault_of(call, result);

        if (fault) {
                hub_call_answer_invalid(call, fault);
                return;
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

/* The answer is the result. large: the line that it was received in, whose memfd is taken; or NULL. */
static void take_whole(struct hub_call *call, struct jsonrpc_message *answer,
                       struct large_line *large)
{
        const char *fault = fault_of(call, answer->result);

        if (fault) {
                hub_call_answer_invalid(call, fault);
                return;
        }
        keep_answer(call, answer);
        call->result.outcome = HUB_OK;
        call->result.result = call->answer.result;
        keep_text(call, call->answer.text, call->answer.text_length);
        if (large)
                keep_large(call, large);
        call->answer.text = NULL;
        hub_call_step(call, EVENT_ANSWERED);
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
                take_result(call, answer, result);
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
        if (!status)
                hub_call_answer_invalid(call, "the task has no status");
        else if (strcmp(status, "working") == 0 || is_first)
                poll_later(call);
        else if (strcmp(status, "cancelled") == 0)
                fail_cancelled(call, task);
        else if (strcmp(status, "input_required") == 0 && is_modern(call))
                hub_call_ask_all(call, yyjson_obj_get(task, "inputRequests"), update);
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
                hub_call_ask_all(call, requests, send_again);
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

        if (answer->kind == JSONRPC_RESPONSE) {
                if (is_about_task)
                        take_task_answer(call, answer);
                else if (!begin_task(call, answer, is_modern) &&
                         !(is_modern && take_incomplete(call, answer->result)))
                        take_whole(call, answer, large);
        } else if (!hub_call_ask_urls(call, answer)) {
                take_failure(call, answer, answer->error_code, answer->error_message,
                             answer->error_data);
        }
}
