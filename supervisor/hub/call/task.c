/* A call that runs as a task. */
#include "supervisor/hub/call/task.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json-out.h"
#include "supervisor/hub/call/input.h"
#include "supervisor/hub/call/result.h"

static void on_poll(evutil_socket_t fd, short what, void *data);

int hub_call_append_task(struct buffer *params, yyjson_val *id)
{
        struct json_out out = {.to = params};

        if (!yyjson_is_str(id) || yyjson_get_len(id) > CALL_TASK_ID_MAX)
                return -EINVAL;
        json_out_begin(&out, NULL, '{');
        json_out_string(&out, "taskId", yyjson_get_str(id), yyjson_get_len(id));
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : buffer_append(params, "", 1);
}

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
                hub_call_take_result(call, answer, result);
        else if (error)
                hub_call_take_error(call, answer, error);
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
                take_status(call, answer, task);
        return true;
}

void hub_call_task_answer(struct hub_call *call, struct jsonrpc_message *answer)
{
        if (call->step == STEP_UPDATE)
                poll_later(call);
        else if (!yyjson_is_obj(answer->result))
                hub_call_answer_invalid(call, "the task is not an object");
        else
                take_status(call, answer, answer->result);
}
