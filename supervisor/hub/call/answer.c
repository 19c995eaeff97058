/* The answer of a server to a call. */
#include "supervisor/hub/call/answer.h"

#include <string.h>

#include "supervisor/hub/call/input.h"
#include "supervisor/hub/call/result.h"
#include "supervisor/hub/call/round.h"
#include "supervisor/hub/call/task.h"

static void take_input_required(struct hub_call *call, yyjson_val *result)
{
        yyjson_val *requests = yyjson_obj_get(result, "inputRequests"),
                   *state = yyjson_obj_get(result, "requestState");

        if (!yyjson_is_str(state) && yyjson_obj_size(requests) == 0) {
                hub_call_answer_invalid(call, "it asks for input, but names no input request");
                return;
        }
        if (!hub_call_may_repeat(call))
                return;
        buffer_consume(&call->server_state, call->server_state.length);
        if (yyjson_is_str(state) && json_append(&call->server_state, state) < 0)
                hub_call_answer_invalid(call, "its requestState cannot be kept");
        else if (yyjson_obj_size(requests) > 0)
                hub_call_ask_all(call, requests, hub_call_again);
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

void hub_call_answer(struct hub_call *call, struct jsonrpc_message *answer, bool is_modern,
                     struct large_line *large)
{
        bool is_about_task = call->step == STEP_GET || call->step == STEP_UPDATE;

        if (answer->kind == JSONRPC_RESPONSE) {
                if (is_about_task)
                        hub_call_task_answer(call, answer);
                else if (!hub_call_begin_task(call, answer, is_modern) &&
                         !(is_modern && take_incomplete(call, answer->result)))
                        hub_call_take_whole(call, answer, large);
        } else if (!hub_call_ask_urls(call, answer)) {
                hub_call_take_failure(call, answer, answer->error_code, answer->error_message,
                                      answer->error_data);
        }
}
