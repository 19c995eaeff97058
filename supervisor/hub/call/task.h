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
#pragma once

#include "supervisor/hub/call/call.h"

/* If the answer creates a task, takes it. Returns whether it does: the call continues then, or has ended. */
bool hub_call_begin_task(struct hub_call *call, struct jsonrpc_message *answer, bool is_modern);
/* The answer to a request about the task. */
void hub_call_task_answer(struct hub_call *call, struct jsonrpc_message *answer);

/* Appends the params of requests about a task, {"taskId": …} and a NUL. Returns 0, -EINVAL if it is not a
 * valid id, -ENOMEM. */
int hub_call_append_task(struct buffer *params, yyjson_val *id);
