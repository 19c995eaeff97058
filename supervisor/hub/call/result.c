/* Ends a call with the answer of its server. */
#include "supervisor/hub/call/result.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

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

void hub_call_take_failure(struct hub_call *call, struct jsonrpc_message *answer, int64_t code,
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
                hub_call_take_failure(call, answer, code, message ? message : "",
                                      yyjson_obj_get(error, "data"));
}

void hub_call_take_whole(struct hub_call *call, struct jsonrpc_message *answer,
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
