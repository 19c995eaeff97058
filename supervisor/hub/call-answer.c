/*
 * What a server answers to a call: a result, an error, or something that the call has to go on from.
 *
 * A result of MCP 2026-07-28 may ask for input (call-ask.c) or want its state back (requestState): the
 * server is called again with these, at most CALL_ROUNDS_MAX times. A result may also name a task, which
 * is then looked at until it has ended (call-task.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "rpc/lines.h"
#include "supervisor/hub/call-internal.h"

void hub_call_answer_invalid(struct hub_call *call, const char *why)
{
        hub_call_finish(call, EVENT_ANSWERED, HUB_PROTOCOL,
                        "server \"%s\" gave no valid answer: %s", hub_call_server(call), why);
}

void hub_call_answer_none(struct hub_call *call, const char *why)
{
        hub_call_finish(call, EVENT_ANSWERED, HUB_UNAVAILABLE, "server \"%s\": %s",
                        hub_call_server(call), why);
}

/* Whether it may be sent once more; else it has failed. */
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

static int append_member(struct buffer *b, const char *before, const struct buffer *value,
                         const char *after)
{
        if (value->length == 0)
                return 0;
        int r = buffer_append_text(b, before);
        if (r >= 0)
                r = buffer_append(b, buffer_bytes(value), value->length);
        return r < 0 ? r : buffer_append_text(b, after);
}

/* The server's state goes back exactly as it was written ("Multi Round-Trip Requests", "Client
 * Requirements"). The call's deadline is for all rounds. */
void hub_call_again(struct hub_call *call)
{
        const struct call_params *before = &call->params;
        struct call_params params = {.bytes = BUFFER_INIT(LINES_MAX)};
        struct buffer *b = &params.bytes;

        int r = buffer_append_text(b, "{");
        if (r >= 0)
                r = append_member(b, "\"inputResponses\":{", &call->answers, "}");
        if (r >= 0)
                r = append_member(b, b->length > 1 ? ",\"requestState\":" : "\"requestState\":",
                                  &call->server_state, "");
        if (r >= 0 && b->length > 1 && before->bytes.length > 2)
                r = buffer_append_text(b, ",");
        if (r >= 0)
                r = buffer_append(b, buffer_bytes(&before->bytes) + 1, before->bytes.length - 1);
        if (r >= 0 && before->text) {
                params.text = shared_text_ref(before->text);
                params.after = before->after;
        }
        buffer_consume(&call->answers, call->answers.length);
        if (r >= 0)
                hub_call_go_on(call, call->method, &params);
        else
                hub_call_finish(call, EVENT_ANSWERED, HUB_PROTOCOL,
                                "cannot call server \"%s\" again with its state: %s",
                                hub_call_server(call), strerrordesc_np(-r));
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
                                "server \"%s\" refused the headers of the call, and %s when it was asked for its tools again",
                                hub_call_server(call), why);
                else
                        hub_call_again(call);
        }
}

static void take_input_required(struct hub_call *call, yyjson_val *result)
{
        yyjson_val *requests = yyjson_obj_get(result, "inputRequests"),
                   *state = yyjson_obj_get(result, "requestState");

        if (!yyjson_is_str(state) && yyjson_obj_size(requests) == 0) {
                hub_call_answer_invalid(call, "it asks for input, and does not say which");
                return;
        }
        if (!may_repeat(call))
                return;
        buffer_consume(&call->server_state, call->server_state.length);
        if (yyjson_is_str(state) && json_append(&call->server_state, state) < 0)
                hub_call_answer_invalid(call, "its requestState cannot be kept");
        else if (yyjson_obj_size(requests) > 0)
                hub_call_ask_all(call, requests);
        else
                hub_call_again(call);
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

void hub_call_take_result(struct hub_call *call, struct jsonrpc_message *answer, yyjson_val *result)
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

static void fail_by(struct hub_call *call, struct jsonrpc_message *answer, int64_t code,
                    const char *message, yyjson_val *data)
{
        keep_answer(call, answer);
        call->result.outcome = HUB_PROTOCOL;
        call->result.rpc_code = code;
        call->result.rpc_data = data;
        call->result.message = message;
        hub_call_step(call, EVENT_ANSWERED);
}

void hub_call_take_error(struct hub_call *call, struct jsonrpc_message *answer, yyjson_val *error)
{
        const char *message = json_string(error, "message", NULL);
        int64_t code = 0;

        if (json_int64(yyjson_obj_get(error, "code"), &code) < 0)
                hub_call_answer_invalid(call, "the error of the task has no code");
        else
                fail_by(call, answer, code, message ? message : "", yyjson_obj_get(error, "data"));
}

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

void hub_call_answer(struct hub_call *call, struct jsonrpc_message *answer, bool is_modern,
                     struct large_line *large)
{
        bool is_about_task = call->step == STEP_GET || call->step == STEP_UPDATE;

        if (answer->kind == JSONRPC_RESPONSE) {
                if (is_about_task)
                        hub_call_task_answer(call, answer);
                else if (!hub_call_begin_task(call, answer, is_modern) &&
                         !(is_modern && take_incomplete(call, answer->result)))
                        take_whole(call, answer, large);
        } else if (!hub_call_ask_urls(call, answer)) {
                fail_by(call, answer, answer->error_code, answer->error_message,
                        answer->error_data);
        }
}
