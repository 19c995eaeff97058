/* Commands about the whole server. */
#include "supervisor/broker/control-service.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/json-out.h"
#include "supervisor/service/phase.h"
#include "supervisor/session/sessions-owner.h"

enum { ANSWER_MAX = 4096 };

#define DRAIN_DEADLINE_MAX_MS (30 * 24 * 3600 * INT64_C(1000))

struct reload_task {
        struct control_task task; /* first */
        struct reload_waiter waiter;
};

static void free_task(struct control_task *task)
{
        const struct control_service *service = control_context(task->control)->service;
        struct reload_task *r = (void *)task;

        service->forget(service->data, &r->waiter);
        free(r);
}

static const struct control_work work = {.free = free_task};

static void on_reloaded(struct reload_waiter *waiter, const struct error *error,
                        const char *at_restart)
{
        struct reload_task *r = (struct reload_task *)((char *)waiter -
                                                       offsetof(struct reload_task, waiter));
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(ANSWER_MAX);
        struct json_out out = {.to = &result};
        struct error err = {};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "at_restart", at_restart);
        json_out_end(&out, '}');
        if (!error && out.error < 0) {
                error_errno(&err, -out.error, "the answer");
                error = &err;
        }
        control_task_finish(&r->task, &result, error);
        free(r);
}

static int check_service(const struct control_context *context, struct error *err)
{
        return context->service
                       ? 0
                       : error_set(err, EINVAL,
                                   "this server is not 'cloister serve': it ends with its client");
}

int control_reload(struct control_client *client, struct control *control,
                   struct jsonrpc_message *request, struct error *err)
{
        const struct control_context *context = control_context(control);
        int r = check_service(context, err);

        if (r >= 0)
                r = control_check_room(control, err);
        if (r < 0)
                return r;
        struct reload_task *task = calloc(1, sizeof(*task));
        if (!task)
                return error_errno(err, ENOMEM, "reload");
        task->waiter.done = on_reloaded;
        control_task_begin(client, &task->task, &work, request);
        context->service->reload(context->service->data, &task->waiter);
        return 0;
}

static int begin_drain(const struct control_service *service, yyjson_val *params, struct error *err)
{
        yyjson_val *given = yyjson_obj_get(params, "deadline_ms");
        int64_t ms = 0;

        if (given && (json_int64(given, &ms) < 0 || ms < 1 || ms > DRAIN_DEADLINE_MAX_MS))
                return error_set(err, EINVAL, "deadline_ms: a time of at most 30 days is needed");
        return service->drain(service->data, (uint64_t)ms, err);
}

int control_drain(const struct control_context *context, yyjson_val *params, struct buffer *result,
                  struct error *err)
{
        struct json_out out = {.to = result};
        struct sessions_count count;
        int r = check_service(context, err);

        if (r >= 0)
                r = yyjson_is_true(yyjson_obj_get(params, "cancel"))
                            ? context->service->undo_drain(context->service->data, err)
                            : begin_drain(context->service, params, err);
        if (r < 0)
                return r;
        sessions_count(context->sessions, &count);
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "phase", service_phase_name(service_phase()));
        json_out_int(&out, "sessions", (int64_t)count.live);
        json_out_end(&out, '}');
        return out.error < 0 ? error_errno(err, -out.error, "the answer") : 0;
}
