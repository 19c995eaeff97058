/*
 * A call that runs as a task: the answer to tools/call names it.
 *
 *                 legacy (2025-11-25)                 modern (io.modelcontextprotocol/tasks)
 *     working         tasks/get after the interval that the server gives
 *     input_required  tasks/result; the server asks   inputRequests; tasks/update with the answers
 *     completed       tasks/result                    has the result
 *     failed          tasks/result                    has the error
 *     cancelled       the call fails
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "supervisor/hub/call-internal.h"

/* Takes the id. Returns 0, -EINVAL, -ENOMEM. */
static int name_task(struct hub_call *call, yyjson_val *id)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(8 * CALL_TASK_ID_MAX);

        if (!yyjson_is_str(id) || yyjson_get_len(id) > CALL_TASK_ID_MAX)
                return -EINVAL;
        int r = buffer_append_text(&params, "{\"taskId\":");
        if (r >= 0)
                r = json_append(&params, id);
        if (r >= 0)
                r = buffer_append(&params, "}", 1);
        if (r >= 0)
                call->task = strndup(buffer_bytes(&params), params.length);
        if (!call->task)
                return -ENOMEM;
        call->calls->n_tasks++;
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
        (void)fd;
        (void)what;
        request(data, STEP_GET, "tasks/get");
}

void hub_call_poll_init(struct hub_call *call, struct event_base *base)
{
        call->poll_ms = CALL_POLL_MS;
        evtimer_assign(&call->poll, base, on_poll, call);
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
                hub_call_take_result(call, answer, result);
        else if (error)
                hub_call_take_error(call, answer, error);
        else
                hub_call_answer_invalid(call, "the task has ended without a result");
}

static void look(struct hub_call *call, struct jsonrpc_message *answer, yyjson_val *task)
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
                hub_call_ask_all(call, yyjson_obj_get(task, "inputRequests"));
        else if (strcmp(status, "completed") != 0 && strcmp(status, "failed") != 0 &&
                 strcmp(status, "input_required") != 0)
                hub_call_answer_invalid(call, "the task has an unknown status");
        else if (!is_modern(call))
                request(call, STEP_RESULT, "tasks/result");
        else
                take_end(call, answer, task);
}

bool hub_call_begin_task(struct hub_call *call, struct jsonrpc_message *answer, bool modern)
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
                look(call, answer, task);
        return true;
}

void hub_call_task_answer(struct hub_call *call, struct jsonrpc_message *answer)
{
        if (call->step == STEP_UPDATE)
                poll_later(call);
        else if (!yyjson_is_obj(answer->result))
                hub_call_answer_invalid(call, "the task is not an object");
        else
                look(call, answer, answer->result);
}

void hub_call_update_task(struct hub_call *call)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(call->answers.limit);

        if (call->answers.length == 0) {
                poll_later(call);
                return;
        }
        int r = buffer_append(&params, call->task, strlen(call->task) - 1);
        if (r >= 0)
                r = buffer_append_text(&params, ",\"inputResponses\":{");
        if (r >= 0)
                r = buffer_append(&params, buffer_bytes(&call->answers), call->answers.length);
        if (r >= 0)
                r = buffer_append_text(&params, "}}");
        buffer_consume(&call->answers, call->answers.length);
        call->step = STEP_UPDATE;
        if (r >= 0)
                hub_call_go_on(call, "tasks/update", &(struct call_params){.bytes = params});
        else
                hub_call_answer_invalid(call, "the answers to it are too large");
}
