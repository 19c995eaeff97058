/* The call that a message of the server is about. */
#pragma once

#include "supervisor/hub/call/call.h"

/* The call that was sent with this id, or NULL. */
struct hub_call *hub_calls_find(struct hub_calls *calls, yyjson_val *id);
struct hub_call *hub_calls_by_id(struct hub_calls *calls, int64_t id);
/* The call that a line answers which cannot be parsed, or NULL. */
struct hub_call *hub_calls_guess(struct hub_calls *calls, const char *line, size_t n);

/*
 * The call on behalf of which the server sends a message that does not belong to an answer: the one whose
 * task it names, otherwise the one that has asked for least, if all calls are of one client. Returns NULL
 * and why there is none.
 */
struct hub_call *hub_calls_attribute(struct hub_calls *calls, yyjson_val *params, const char **why);

/* The server reports the progress of a call. Returns whether it is one of these calls. */
bool hub_calls_progress(struct hub_calls *calls, yyjson_val *params);
/* The server sends a log message. */
void hub_calls_log(struct hub_calls *calls, yyjson_val *params);
/* A late answer to a request that was cancelled. If it creates a task, returns the params of a request to
 * cancel the task, which the caller frees; otherwise NULL. */
char *hub_calls_orphan(struct hub_calls *calls, int64_t id, yyjson_val *result);
