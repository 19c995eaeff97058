#include "supervisor/broker/control-methods.h"

#include <errno.h>

#include "base/json-out.h"
#include "supervisor/broker/control-exec.h"
#include "supervisor/broker/control-files.h"
#include "supervisor/broker/network.h"

enum { ANSWER_MAX = 16 * 1024 * 1024 };

static int answer_list(const struct control_context *context, yyjson_val *params,
                       struct buffer *result, struct error *err)
{
        _cleanup_buffer_ struct buffer list = BUFFER_INIT(ANSWER_MAX);
        struct json_out out = {.to = result};
        struct sessions_count count;

        sessions_count(context->sessions, &count);
        json_out_begin(&out, NULL, '{');
        json_out_int(&out, "sessions_max", (int64_t)count.max);
        json_out_int(&out, "ready", (int64_t)count.spares_ready);
        json_out_text(&out, "network", context->network ? network_state(context->network) : "none");
        int r = sessions_append_list(context->sessions, &list);
        json_out_raw(&out, "sessions", buffer_bytes(&list), list.length);
        json_out_end(&out, '}');
        r = r < 0 ? r : out.error;
        return r < 0 ? error_errno(err, -r, "list the sessions") : 0;
}

static int take_name(yyjson_val *params, const char **ret, struct error *err)
{
        size_t n = 0;

        *ret = json_string(params, "name", &n);
        if (!*ret || !session_key_valid(*ret, n))
                return error_set(err, EINVAL, "name: a session's name is needed");
        return 0;
}

static int end(const struct control_context *context, yyjson_val *params, struct buffer *result,
               bool restart, struct error *err)
{
        const char *name;
        int r = take_name(params, &name, err);

        if (r >= 0)
                r = sessions_end(context->sessions, name, restart, err);
        return r < 0 ? r : buffer_append(result, "{}", 2);
}

static int answer_end(const struct control_context *context, yyjson_val *params,
                      struct buffer *result, struct error *err)
{
        return end(context, params, result, false, err);
}

static int answer_reset(const struct control_context *context, yyjson_val *params,
                        struct buffer *result, struct error *err)
{
        return end(context, params, result, true, err);
}

static int answer_undo(const struct control_context *context, yyjson_val *params,
                       struct buffer *result, struct error *err)
{
        size_t n = 0;
        const char *name;
        yyjson_val *named = yyjson_obj_get(params, "checkpoint");
        const char *checkpoint = json_string(params, "checkpoint", &n);

        int r = take_name(params, &name, err);
        if (r < 0)
                return r;
        if (named && (!checkpoint || !session_name_valid(checkpoint, n)))
                return error_set(err, EINVAL, "checkpoint: the name of a checkpoint is needed");
        r = sessions_undo(context->sessions, name, checkpoint, err);
        return r < 0 ? r : buffer_append(result, "{}", 2);
}

const struct control_method control_methods[] = {
        {"sessions/list", .answer = answer_list},    {"sessions/end", .answer = answer_end},
        {"sessions/reset", .answer = answer_reset},  {"sessions/undo", .answer = answer_undo},
        {"sessions/exec", .begin = control_exec},    {"sessions/probe", .begin = control_probe},
        {"files/list", .begin = control_list_files}, {"files/get", .begin = control_get_file},
        {"files/put", .begin = control_put_file},    {NULL},
};
