/* Sends a call again, as its server asked. */
#include "supervisor/hub/call/round.h"

#include <string.h>

#include "base/json-out.h"
#include "rpc/lines.h"

bool hub_call_may_repeat(struct hub_call *call)
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
void hub_call_again(struct hub_call *call)
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
                        hub_call_again(call);
        }
}
