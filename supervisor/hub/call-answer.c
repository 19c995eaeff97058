/*
 * What a server answers to a call: a result, an error, or something that the call has to go on from.
 *
 * A result of MCP 2026-07-28 may ask for input. Cloister has nobody to ask, but a server that only
 * wants its state back (requestState) is called again with it, at most CALL_ROUNDS_MAX times. A tool
 * that must run as a task (2025-11-25) answers with the task's id; its result is the answer to
 * tasks/result, which the server gives when the task has ended.
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

/* The first thing that the server wants to know before it goes on; "" when it does not say. */
static const char *first_request(yyjson_val *result)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(yyjson_obj_get(result, "inputRequests"));
        yyjson_val *key = yyjson_obj_iter_next(&iter);
        const char *method = key ? json_string(yyjson_obj_iter_get_val(key), "method", NULL) : NULL;

        return method ? method : "";
}

/* Sends the call again with the server's state, exactly as it was written ("Multi Round-Trip
 * Requests", "Client Requirements"). The call's deadline is for all rounds. */
static void call_again(struct hub_call *call, yyjson_val *state)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(LINES_MAX);

        if (call->rounds == CALL_ROUNDS_MAX) {
                hub_call_finish(call, EVENT_ANSWERED, HUB_PROTOCOL,
                                "server \"%s\" asks to be called again more than %d times",
                                hub_call_server(call), CALL_ROUNDS_MAX);
                return;
        }
        if (call->params.length == 0) {
                hub_call_finish(
                        call, EVENT_ANSWERED, HUB_PROTOCOL,
                        "server \"%s\" asks to be called again, and the arguments of other calls left no room to keep these",
                        hub_call_server(call));
                return;
        }
        call->rounds++;
        int r = buffer_append(&params, buffer_bytes(&call->params), call->params.length - 1);
        if (r >= 0)
                r = buffer_append_text(&params, ",\"requestState\":");
        if (r >= 0)
                r = json_append(&params, state);
        if (r >= 0)
                r = buffer_append(&params, "}", 1);
        if (r >= 0)
                hub_call_go_on(call, "tools/call", &params);
        else
                hub_call_finish(call, EVENT_ANSWERED, HUB_PROTOCOL,
                                "cannot call server \"%s\" again with its state: %s",
                                hub_call_server(call), strerrordesc_np(-r));
}

/* MCP 2026-07-28: a result may also ask for input, or name a task. Returns whether the call does not
 * end with it as a result. */
static bool take_incomplete(struct hub_call *call, yyjson_val *result)
{
        const char *type = json_string(result, "resultType", NULL);
        yyjson_val *state = yyjson_obj_get(result, "requestState");
        bool is_asked = yyjson_obj_size(yyjson_obj_get(result, "inputRequests")) > 0;

        if (!type || strcmp(type, "complete") == 0)
                return false;
        if (strcmp(type, "input_required") != 0)
                hub_call_finish(
                        call, EVENT_ANSWERED, HUB_PROTOCOL,
                        "server \"%s\" answered with a result of type \"%.40s\", which Cloister does not support",
                        hub_call_server(call), type);
        else if (yyjson_is_str(state) && !is_asked)
                call_again(call, state);
        else
                hub_call_finish(
                        call, EVENT_ANSWERED, HUB_PROTOCOL,
                        "server \"%s\" asks for input before it goes on (%.60s), and Cloister has nobody to ask",
                        hub_call_server(call), first_request(result));
        return true;
}

/* The first answer to a call that is a task names the task. A server may ignore that it was told to
 * make one, and answer with the result. Returns whether the call goes on. */
static bool take_task(struct hub_call *call, yyjson_val *result)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(8 * CALL_TASK_ID_MAX);
        yyjson_val *task = yyjson_obj_get(result, "task"), *id = yyjson_obj_get(task, "taskId");

        if (!call->is_task || call->task || !task)
                return false;
        if (!yyjson_is_str(id) || yyjson_get_len(id) > CALL_TASK_ID_MAX) {
                hub_call_answer_invalid(call, "the task has no usable id");
                return true;
        }
        int r = buffer_append_text(&params, "{\"taskId\":");
        if (r >= 0)
                r = json_append(&params, id);
        if (r >= 0)
                r = buffer_append(&params, "}", 1);
        if (r >= 0)
                call->task = strndup(buffer_bytes(&params), params.length);
        if (call->task)
                hub_call_go_on(call, "tasks/result", &params);
        else
                hub_call_answer_invalid(call, "the task's id cannot be kept");
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

void hub_call_answer(struct hub_call *call, struct jsonrpc_message *answer, bool is_modern,
                     struct large_line *large)
{
        bool is_result = answer->kind == JSONRPC_RESPONSE;
        const char *fault = is_result ? hub_result_fault(answer->result) : NULL;

        if (fault) {
                hub_call_answer_invalid(call, fault);
                return;
        }
        if (is_result && (take_task(call, answer->result) ||
                          (is_modern && take_incomplete(call, answer->result))))
                return;
        call->answer = *answer;
        *answer = (struct jsonrpc_message){};
        if (is_result) {
                call->result.outcome = HUB_OK;
                call->result.result = call->answer.result;
                keep_text(call, call->answer.text, call->answer.text_length);
                if (large)
                        keep_large(call, large);
                call->answer.text = NULL;
        } else {
                call->result.outcome = HUB_PROTOCOL;
                call->result.rpc_code = call->answer.error_code;
                call->result.rpc_data = call->answer.error_data;
                call->result.message = call->answer.error_message;
        }
        hub_call_step(call, EVENT_ANSWERED);
}
