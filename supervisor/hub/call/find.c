/* The call that a message of the server is about. */
#include "supervisor/hub/call/find.h"

#include <string.h>

#include "rpc/lines.h"
#include "supervisor/hub/call/task.h"

struct hub_call *hub_calls_by_id(struct hub_calls *calls, int64_t n)
{
        struct hub_call *call;

        if (n <= 0)
                return NULL;
        TAILQ_FOREACH (call, bucket(calls, n), link) {
                if (call->id == n)
                        return call;
        }
        return NULL;
}

struct hub_call *hub_calls_find(struct hub_calls *calls, yyjson_val *id)
{
        int64_t n;

        return json_int64(id, &n) < 0 ? NULL : hub_calls_by_id(calls, n);
}

/* The one call that was sent; NULL when there are none or several. */
static struct hub_call *find_only(struct hub_calls *calls)
{
        struct hub_call *only = NULL;

        if (calls->count != 1)
                return NULL;
        for (size_t i = 0; i < BUCKETS && !only; i++)
                only = TAILQ_FIRST(&calls->sent[i]);
        return only;
}

struct hub_call *hub_calls_guess(struct hub_calls *calls, const char *line, size_t n)
{
        int64_t id;

        if (calls->count == 0 || n == 0 || line[0] != '{')
                return NULL;
        if (jsonrpc_guess_id(line, n, &id))
                return hub_calls_by_id(calls, id);
        /* Many servers write the id last: a line that was cut does not have it. */
        return n == LINES_MAX ? find_only(calls) : NULL;
}

/* ---- progress and messages that name no request ---- */

/* A task keeps the token of the request that created it. */
static struct hub_call *find_by_token(struct hub_calls *calls, int64_t token)
{
        struct hub_call *call = hub_calls_by_id(calls, token);

        for (size_t i = 0; !call && calls->n_tasks > 0 && i < BUCKETS; i++) {
                TAILQ_FOREACH (call, &calls->sent[i], link) {
                        if (call->token == token)
                                return call;
                }
        }
        return call && call->token == token ? call : NULL;
}

bool hub_calls_progress(struct hub_calls *calls, yyjson_val *params)
{
        struct hub_progress progress = {};
        int64_t token;

        if (json_int64(yyjson_obj_get(params, "progressToken"), &token) < 0)
                return false;
        struct hub_call *call = find_by_token(calls, token);
        if (!call || json_double(yyjson_obj_get(params, "progress"), &progress.value) < 0)
                return call;
        if (json_double(yyjson_obj_get(params, "total"), &progress.total) < 0)
                progress.total = 0;
        progress.message = json_string(params, "message", &progress.length);
        if (call->caller->progress)
                call->caller->progress(call->data, &progress);
        return true;
}

static struct hub_call *find_task(struct hub_calls *calls, yyjson_val *id)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(8 * CALL_TASK_ID_MAX);
        struct hub_call *call;

        if (calls->n_tasks == 0 || hub_call_append_task(&params, id) < 0)
                return NULL;
        for (size_t i = 0; i < BUCKETS; i++) {
                TAILQ_FOREACH (call, &calls->sent[i], link) {
                        if (call->task && strcmp(call->task, buffer_bytes(&params)) == 0)
                                return call;
                }
        }
        return NULL;
}

/* Whether the clients of two calls are one. */
static bool are_of_one(const struct hub_call *a, const struct hub_call *b)
{
        struct hub_client first, second;

        return hub_call_client(a, &first) && hub_call_client(b, &second) && first.id == second.id;
}

struct hub_call *hub_calls_attribute(struct hub_calls *calls, yyjson_val *params, const char **why)
{
        yyjson_val *about = yyjson_obj_get(yyjson_obj_get(params, "_meta"),
                                           "io.modelcontextprotocol/related-task");
        yyjson_val *task = yyjson_obj_get(about, "taskId");
        struct hub_call *call, *found = NULL;

        *why = "no call of it is open";
        if (yyjson_is_str(task))
                return find_task(calls, task);
        for (size_t i = 0; i < BUCKETS; i++) {
                TAILQ_FOREACH (call, &calls->sent[i], link) {
                        if (found && !are_of_one(found, call)) {
                                *why = "calls of several clients are open, and the request names none of them";
                                return NULL;
                        }
                        if (!found || call->n_asked < found->n_asked)
                                found = call;
                }
        }
        return found;
}

void hub_calls_log(struct hub_calls *calls, yyjson_val *params)
{
        const char *why;
        struct hub_call *call = hub_calls_attribute(calls, params, &why);

        if (call && call->caller->log)
                call->caller->log(call->data, params);
}

char *hub_calls_orphan(struct hub_calls *calls, int64_t id, yyjson_val *result)
{
        yyjson_val *task = yyjson_obj_get(result, "task");
        yyjson_val *name = yyjson_obj_get(task ? task : result, "taskId");
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(8 * CALL_TASK_ID_MAX);

        for (size_t i = 0; i < ORPHANS; i++) {
                if (id == 0 || calls->orphans[i] != id)
                        continue;
                calls->orphans[i] = 0;
                return hub_call_append_task(&params, name) < 0 ? NULL
                                                               : strdup(buffer_bytes(&params));
        }
        return NULL;
}
