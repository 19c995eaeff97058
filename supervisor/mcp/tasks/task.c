/* Tasks as clients see them. */
#include "supervisor/mcp/tasks/task.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "supervisor/mcp/state.h"

enum { TIME_SIZE = 40 };

struct mcp_task *tasks_find(const struct mcp_principal *principal, const char *id)
{
        struct mcp_task *task;

        if (principal->tasks.n == 0)
                return NULL;
        TAILQ_FOREACH (task, &principal->tasks.list, link) {
                if (strcmp(task->id, id) == 0)
                        return task;
        }
        return NULL;
}

bool task_is_announced(const struct reply *reply)
{
        return reply->task && reply->task->announced;
}

bool tasks_declared(const struct mcp_request *request)
{
        yyjson_val *capabilities = yyjson_obj_get(yyjson_obj_get(request->params, "_meta"),
                                                  META_CAPABILITIES);

        return yyjson_is_obj(
                yyjson_obj_get(yyjson_obj_get(capabilities, "extensions"), TASKS_EXTENSION));
}

void tasks_reply_undeclared(struct reply *reply)
{
        char text[] = "{\"requiredCapabilities\":{\"extensions\":{\"" TASKS_EXTENSION "\":{}}}}";

        reply_error_data(reply, MCP_CLIENT_LACKS,
                         "the client does not declare the extension " TASKS_EXTENSION,
                         &(struct buffer){.data = text, .length = strlen(text)});
}

static const char *const status_names[] = {"working", "completed", "failed", "cancelled"};
static_assert(ARRAY_SIZE(status_names) == TASK_STATUS_MAX, "one name per status");

/* A tool's own error is a failure in 2025-11-25 only. */
const char *task_status_legacy(const struct mcp_task *task)
{
        return status_names[task->status == TASK_COMPLETED && task->is_error ? TASK_FAILED
                                                                             : task->status];
}

static void put_time(struct json_out *out, const char *key, int64_t ms)
{
        time_t seconds = (time_t)(ms / 1000);
        char text[TIME_SIZE];
        struct tm tm;

        gmtime_r(&seconds, &tm);
        size_t n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
        snprintf(text + n, sizeof(text) - n, ".%03dZ", (int)(ms % 1000));
        json_out_text(out, key, text);
}

void task_put(struct json_out *out, const struct mcp_task *task, enum mcp_era era,
              const char *status)
{
        bool legacy = era == ERA_LEGACY;

        json_out_text(out, "taskId", task->id);
        json_out_text(out, "status",
                      status   ? status
                      : legacy ? task_status_legacy(task)
                               : status_names[task->status]);
        put_time(out, "createdAt", task->created_ms);
        put_time(out, "lastUpdatedAt", task->updated_ms);
        json_out_int(out, legacy ? "ttl" : "ttlMs", (int64_t)task->ttl_ms);
        json_out_int(out, legacy ? "pollInterval" : "pollIntervalMs", TASK_POLL_MS);
}

/* The questions of a task that works change its status. */
void task_put_detailed(struct json_out *out, const struct mcp_task *task)
{
        static const char lost[] = "{\"code\":-32603,\"message\":\"the result is lost\"}";
        _cleanup_buffer_ struct buffer input = BUFFER_INIT(TASK_RESULT_MAX);
        const struct buffer *payload = &task->payload;
        bool asks = task->status == TASK_WORKING && task->work &&
                    task->work->append_input(task->work_data, &input) > 0;

        task_put(out, task, ERA_MODERN, asks ? "input_required" : NULL);
        if (asks)
                json_out_buffer(out, "inputRequests", &input);
        else if (task->status == TASK_COMPLETED || task->status == TASK_FAILED)
                json_out_raw(out, task->status == TASK_COMPLETED ? "result" : "error",
                             payload->length > 0 ? buffer_bytes(payload) : lost,
                             payload->length > 0 ? payload->length : strlen(lost));
}
