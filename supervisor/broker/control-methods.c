#include "supervisor/broker/control-methods.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/file-path.h"
#include "base/json-out.h"
#include "policy/rules/labels.h"
#include "supervisor/broker/control-approve.h"
#include "supervisor/broker/control-exec.h"
#include "supervisor/broker/control-service.h"
#include "supervisor/broker/network.h"
#include "supervisor/hub/hub.h"
#include "supervisor/service/phase.h"
#include "supervisor/session/calls/files.h"
#include "supervisor/session/machine/machine.h"
#include "supervisor/session/machine/outcome.h"
#include "supervisor/session/sessions-owner.h"

enum { ANSWER_MAX = 16 * 1024 * 1024 };

/* ---- files of /workspace (`cloister cp`), a piece at a time ---- */

struct file_task {
        struct control_task task; /* first */
        char key[SESSION_KEY_MAX + 1];
        char to[FILE_PATH_MAX + 1]; /* the name that a written file gets now, or "" */
        const char *label;          /* that the session has because of it, or NULL: static */
};

static void free_task(struct control_task *task)
{
        free(task);
}

static const struct control_work work = {.free = free_task};

static int take_path(yyjson_val *params, const char *key, const char **ret, struct error *err)
{
        size_t n = 0;

        *ret = json_string(params, key, &n);
        if (!*ret || !file_path_valid(*ret, n))
                return error_set(err, EINVAL, "%s: a path below /workspace is needed", key);
        return 0;
}

static int take_offset(yyjson_val *params, uint64_t *ret, struct error *err)
{
        int64_t n = 0;

        if (json_int64(yyjson_obj_get(params, "offset"), &n) < 0 || n < 0)
                return error_set(err, EINVAL, "offset: a number is needed");
        *ret = (uint64_t)n;
        return 0;
}

static int begin(struct control *control, yyjson_val *params, struct session **session,
                 struct file_task **ret, struct error *err)
{
        const char *key;

        int r = control_check_room(control, err);
        if (r >= 0)
                r = control_session(control, params, &key, session, err);
        if (r < 0)
                return r;
        struct file_task *task = calloc(1, sizeof(*task));
        if (!task)
                return error_errno(err, ENOMEM, "files");
        memcpy(task->key, key, strlen(key) + 1);
        *ret = task;
        return 0;
}

/* The task waits for its answer, or is freed if it could not be sent. */
static int follow(struct file_task *task, int sent, struct control_client *client,
                  struct jsonrpc_message *request)
{
        if (sent < 0)
                free(task);
        else
                control_task_begin(client, &task->task, &work, request);
        return sent;
}

/* Answers, or refuses, and ends the task. */
static void end(struct file_task *task, int made, const struct buffer *result,
                const struct error *error)
{
        struct error err = {};

        if (!error && made < 0) {
                error_errno(&err, -made, "the answer");
                error = &err;
        }
        control_task_finish(&task->task, result, error);
        free(task);
}

static void on_list(void *data, const struct file_answer *answer, const struct error *error)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(ANSWER_MAX);
        struct json_out out = {.to = &result};

        if (!error) {
                json_out_begin(&out, NULL, '{');
                json_out_text(&out, "kind", answer->kind);
                json_out_begin(&out, "files", '[');
                for (size_t i = 0; i < answer->n_files; i++) {
                        json_out_begin(&out, NULL, '{');
                        json_out_text(&out, "path", answer->files[i].path);
                        json_out_int(&out, "size", (int64_t)answer->files[i].size);
                        json_out_end(&out, '}');
                }
                json_out_end(&out, ']');
                json_out_int(&out, "total", (int64_t)answer->files_total);
                json_out_end(&out, '}');
        }
        end(data, out.error, &result, error);
}

static int control_list_files(struct control_client *client, struct control *control,
                              struct jsonrpc_message *request, struct error *err)
{
        struct file_task *task;
        struct session *session;
        size_t n = 0;
        const char *path = json_string(request->params, "path", &n);

        if (!path || (n > 0 && !file_path_valid(path, n)))
                return error_set(err, EINVAL,
                                 "path: a path below /workspace is needed, or an empty one");
        int r = begin(control, request->params, &session, &task, err);
        if (r < 0)
                return r;
        return follow(task, files_list(session, path, on_list, task, err), client, request);
}

static void on_piece(void *data, const struct file_answer *answer, const struct error *error)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(4 * FILES_CHUNK);
        struct json_out out = {.to = &result};

        if (!error) {
                json_out_begin(&out, NULL, '{');
                json_out_int(&out, "size", (int64_t)answer->size);
                json_out_bool(&out, "eof", answer->eof);
                json_out_text(&out, "version", answer->version);
                json_out_base64(&out, "data", buffer_bytes(&answer->data), answer->data.length);
                json_out_end(&out, '}');
        }
        end(data, out.error, &result, error);
}

static int control_get_file(struct control_client *client, struct control *control,
                            struct jsonrpc_message *request, struct error *err)
{
        struct file_task *task;
        struct session *session;
        const char *path;
        uint64_t offset;

        int r = take_path(request->params, "path", &path, err);
        if (r >= 0)
                r = take_offset(request->params, &offset, err);
        if (r >= 0)
                r = begin(control, request->params, &session, &task, err);
        if (r < 0)
                return r;
        return follow(task, files_fetch(session, path, offset, FILES_CHUNK, on_piece, task, err),
                      client, request);
}

static void on_put(void *data, const struct file_answer *answer, const struct error *error)
{
        struct file_task *task = data;
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(64);
        struct session *session = sessions_find(control_context(task->task.control)->sessions,
                                                task->key);
        struct json_out out = {.to = &result};

        if (!error && task->to[0] && session)
                session_note_file(session, task->to);
        json_out_begin(&out, NULL, '{');
        if (task->label)
                json_out_text(&out, "label", task->label);
        json_out_end(&out, '}');
        end(task, out.error, &result, error);
}

/* The session has the label before it gets the first byte. */
static int take_label(struct session *session, yyjson_val *params, const char **ret,
                      struct error *err)
{
        const char *name = json_string(params, "label", NULL);
        unsigned bits = label_find(name);

        if (!name)
                return 0;
        for (size_t i = 0; label_names[i]; i++)
                if (strcmp(label_names[i], name) == 0)
                        *ret = label_names[i];
        if (!bits)
                return error_set(err, EINVAL, "label: private or untrusted is needed");
        session_labels_add(&session->labels, bits, "files of cp", 0, 0);
        return 0;
}

/* Takes and checks the parameters of a request. */
static int take_put(yyjson_val *params, struct file_put *ret, struct buffer *bytes,
                    struct error *err)
{
        size_t n = 0;
        const char *data = json_string(params, "data", &n);

        int r = take_path(params, "path", &ret->path, err);
        if (r >= 0)
                r = take_offset(params, &ret->offset, err);
        if (r >= 0 && yyjson_obj_get(params, "to"))
                r = take_path(params, "to", &ret->to, err);
        if (r < 0)
                return r;
        ret->discard = yyjson_is_true(yyjson_obj_get(params, "discard"));
        if (!data || base64_decode(bytes, data, n) < 0)
                return error_set(err, EINVAL, "data: at most %d bytes as base64 are needed",
                                 FILES_CHUNK);
        ret->bytes = bytes->length > 0 ? buffer_bytes(bytes) : "";
        ret->n = bytes->length;
        return 0;
}

static int control_put_file(struct control_client *client, struct control *control,
                            struct jsonrpc_message *request, struct error *err)
{
        _cleanup_buffer_ struct buffer bytes = BUFFER_INIT(FILES_CHUNK);
        struct file_put put = {};
        struct file_task *task;
        struct session *session;

        int r = take_put(request->params, &put, &bytes, err);
        if (r >= 0)
                r = begin(control, request->params, &session, &task, err);
        if (r < 0)
                return r;
        r = take_label(session, request->params, &task->label, err);
        if (r < 0) {
                free(task);
                return r;
        }
        if (put.to)
                memcpy(task->to, put.to, strlen(put.to) + 1);
        return follow(task, files_put(session, &put, on_put, task, err), client, request);
}

/* ---- sessions ---- */

static int answer_list(const struct control_context *context, yyjson_val *params,
                       struct buffer *result, struct error *err)
{
        _cleanup_buffer_ struct buffer list = BUFFER_INIT(ANSWER_MAX);
        struct json_out out = {.to = result};
        struct sessions_count count;

        sessions_count(context->sessions, &count);
        json_out_begin(&out, NULL, '{');
        if (context->mode)
                json_out_text(&out, "mode", context->mode);
        json_out_text(&out, "phase", service_phase_name(service_phase()));
        json_out_int(&out, "sessions_max", (int64_t)count.max);
        json_out_int(&out, "ready", (int64_t)count.spares_ready);
        json_out_text(&out, "network", context->network ? network_state(context->network) : "none");
        json_out_begin(&out, "servers", '[');
        if (context->hub)
                hub_put_servers(context->hub, &out);
        json_out_end(&out, ']');
        int r = sessions_append_list(context->sessions, &list);
        json_out_raw(&out, "sessions", buffer_bytes(&list), list.length);
        json_out_end(&out, '}');
        r = r < 0 ? r : out.error;
        return r < 0 ? error_errno(err, -r, "list the sessions") : 0;
}

static int end_session(const struct control_context *context, yyjson_val *params,
                       struct buffer *result, bool restart, struct error *err)
{
        const char *name;
        int r = control_take_name(params, &name, err);

        if (r >= 0)
                r = sessions_end(context->sessions, name, restart, err);
        return r < 0 ? r : buffer_append(result, "{}", 2);
}

static int answer_end(const struct control_context *context, yyjson_val *params,
                      struct buffer *result, struct error *err)
{
        return end_session(context, params, result, false, err);
}

static int answer_reset(const struct control_context *context, yyjson_val *params,
                        struct buffer *result, struct error *err)
{
        return end_session(context, params, result, true, err);
}

static int answer_undo(const struct control_context *context, yyjson_val *params,
                       struct buffer *result, struct error *err)
{
        size_t n = 0;
        const char *name;
        yyjson_val *named = yyjson_obj_get(params, "checkpoint");
        const char *checkpoint = json_string(params, "checkpoint", &n);

        int r = control_take_name(params, &name, err);
        if (r < 0)
                return r;
        if (named && (!checkpoint || !session_name_valid(checkpoint, n)))
                return error_set(err, EINVAL, "checkpoint: the name of a checkpoint is needed");
        r = sessions_undo(context->sessions, name, checkpoint, err);
        return r < 0 ? r : buffer_append(result, "{}", 2);
}

const struct control_method control_methods[] = {
        {"sessions/list", .unrecorded = true, .answer = answer_list},
        {"sessions/end", .answer = answer_end},
        {"sessions/reset", .answer = answer_reset},
        {"sessions/undo", .answer = answer_undo},
        {"sessions/exec", .begin = control_exec},
        {"sessions/probe", .unrecorded = true, .begin = control_probe},
        {"files/list", .begin = control_list_files},
        {"files/get", .begin = control_get_file},
        {"files/put", .begin = control_put_file},
        {"questions/list", .unrecorded = true, .answer = control_list_questions},
        {"questions/show", .unrecorded = true, .answer = control_show_question},
        {"questions/answer", .answer = control_answer_question},
        {"server/reload", .begin = control_reload},
        {"server/drain", .answer = control_drain},
        {NULL},
};
