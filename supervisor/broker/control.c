/* The control socket: clients, and requests that are answered at once. */
#include "supervisor/broker/control.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "supervisor/service/event.h"
#include "supervisor/session/machine/session-state.h"
#include "supervisor/session/session.h"

enum { ANSWER_MAX = 16 * 1024 * 1024 };

static const struct timeval idle = {.tv_sec = CONTROL_IDLE_SECONDS};

struct control_client {
        LIST_ENTRY(control_client) link;
        struct control *control;
        struct bufferevent *stream;
        struct control_task *task; /* or NULL */
        bool stays;                /* a prompt: it may be silent as long as it lives */
};

struct control {
        struct control_context context;
        const struct control_method *methods;
        int listener;
        struct event *readable;
        LIST_HEAD(, control_client) clients;
        size_t n_clients, n_staying;
        LIST_HEAD(, control_task) tasks; /* also of clients that have left */
        size_t n_tasks;
};

static void client_free(struct control_client *client)
{
        struct control *control = client->control;
        struct control_task *task = client->task;

        if (task) {
                task->client = NULL;
                if (task->work->stop)
                        task->work->stop(task);
        }
        LIST_REMOVE(client, link);
        control->n_staying -= client->stays;
        /* A connection may wait in the backlog. */
        if (control->n_clients-- == CONTROL_CLIENTS_MAX && control->readable)
                event_add(control->readable, NULL);
        bufferevent_free(client->stream);
        free(client);
}

/* ---- requests that are answered later ---- */

const struct control_context *control_context(const struct control *control)
{
        return &control->context;
}

int control_take_name(yyjson_val *params, const char **ret, struct error *err)
{
        size_t n = 0;

        *ret = json_string(params, "name", &n);
        if (!*ret || !session_key_valid(*ret, n))
                return error_set(err, EINVAL, "name: a session's name is needed");
        return 0;
}

int control_session(const struct control *control, yyjson_val *params, const char **key,
                    struct session **ret, struct error *err)
{
        const char *name;
        int r = control_take_name(params, &name, err);

        if (r < 0)
                return r;
        struct session *session = sessions_find(control->context.sessions, name);
        if (!session || session_state(session) == SESSION_NONE)
                return error_set(err, ENOENT, "no live session is called \"%s\"", name);
        if (session_is_single(session))
                return error_set(err, ENOENT,
                                 "session \"%s\" runs a published tool, and ends with it", name);
        if (key)
                *key = name;
        *ret = session;
        return 0;
}

int control_check_room(const struct control *control, struct error *err)
{
        if (control->n_tasks < CONTROL_TASKS_MAX)
                return 0;
        return error_set(err, EBUSY,
                         "%d of your commands are running in this server: wait for one to end",
                         CONTROL_TASKS_MAX);
}

void control_task_begin(struct control_client *client, struct control_task *task,
                        const struct control_work *work, struct jsonrpc_message *request)
{
        task->control = client->control;
        task->client = client;
        task->request = *request;
        task->work = work;
        *request = (struct jsonrpc_message){};
        client->task = task;
        LIST_INSERT_HEAD(&client->control->tasks, task, link);
        client->control->n_tasks++;
        bufferevent_set_timeouts(client->stream, NULL, NULL);
}

size_t control_task_send(struct control_task *task, const struct buffer *line)
{
        struct control_client *client = task->client;

        if (!client)
                return 0;
        bufferevent_write(client->stream, buffer_bytes(line), line->length);
        return evbuffer_get_length(bufferevent_get_output(client->stream));
}

/* Without an answer. */
static void task_end(struct control_task *task)
{
        struct control_client *client = task->client;

        LIST_REMOVE(task, link);
        task->control->n_tasks--;
        jsonrpc_done(&task->request);
        if (!client)
                return;
        client->task = NULL;
        bufferevent_set_timeouts(client->stream, client->stays ? NULL : &idle, &idle);
}

static int code_of(int r)
{
        return r == -ENOENT   ? CONTROL_NO_SESSION
               : r == -EBUSY  ? CONTROL_BUSY
               : r == -EINVAL ? JSONRPC_INVALID_PARAMS
                              : JSONRPC_INTERNAL_ERROR;
}

void control_task_finish(struct control_task *task, const struct buffer *result,
                         const struct error *error)
{
        _cleanup_buffer_ struct buffer out = BUFFER_INIT(2 * ANSWER_MAX);
        struct error err = {};

        if (error && error_is_set(error))
                err = *error;
        else if (jsonrpc_append_result(&out, task->request.id, buffer_bytes(result),
                                       result->length) < 0)
                error_set(&err, EMSGSIZE, "the answer is too large");
        if (error_is_set(&err))
                jsonrpc_append_error(&out, task->request.id, code_of(-err.code), err.text, NULL, 0);
        control_task_send(task, &out);
        task_end(task);
}

/* ---- clients ---- */

static bool is_method(const struct jsonrpc_message *message, const char *name)
{
        return message->method_length == strlen(name) &&
               memcmp(message->method, name, message->method_length) == 0;
}

static const struct control_method *find_method(const struct control *control,
                                                const struct jsonrpc_message *message)
{
        for (const struct control_method *m = control->methods; m->name; m++) {
                if (is_method(message, m->name))
                        return m;
        }
        return NULL;
}

/* A file that is copied in pieces is one command. */
static bool is_first_piece(yyjson_val *params)
{
        int64_t offset = 0;

        return json_int64(yyjson_obj_get(params, "offset"), &offset) < 0 || offset == 0;
}

/* For the event: the session that the command names, or "". */
static void take_session(yyjson_val *params, char to[SESSION_KEY_MAX + 1])
{
        size_t n = 0;
        const char *name = json_string(params, "name", &n);
        bool is_valid = name && session_key_valid(name, n);

        snprintf(to, SESSION_KEY_MAX + 1, "%s", is_valid ? name : "");
}

/* Appends the answer, or begins a task. Returns negative errno if the answer is too large. */
static int call(struct control_client *client, struct jsonrpc_message *message, struct buffer *to)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(ANSWER_MAX);
        struct control *control = client->control;
        const struct control_method *method = find_method(control, message);
        char session[SESSION_KEY_MAX + 1];
        struct error err = {};

        if (!method)
                return jsonrpc_append_error(to, message->id, JSONRPC_METHOD_NOT_FOUND,
                                            "method not found", NULL, 0);
        bool is_recorded = !method->unrecorded && is_first_piece(message->params);
        take_session(message->params, session);
        int r = method->begin ? method->begin(client, control, message, &err)
                              : method->answer(&control->context, message->params, &result, &err);
        if (is_recorded)
                event_owner(&(struct event_owner){.ids = {.session = session},
                                                  .command = method->name,
                                                  .ok = r >= 0,
                                                  .why = err.text});
        if (r < 0)
                return jsonrpc_append_error(to, message->id, code_of(r), err.text, NULL, 0);
        return method->begin ? 0
                             : jsonrpc_append_result(to, message->id, buffer_bytes(&result),
                                                     result.length);
}

/* Enough places are left for clients that do not stay. */
static void stay(struct control_client *client)
{
        struct control *control = client->control;

        if (client->stays || control->n_staying == CONTROL_STAYING_MAX)
                return;
        client->stays = true;
        control->n_staying++;
        if (!client->task)
                bufferevent_set_timeouts(client->stream, NULL, &idle);
}

/* While a request waits for its answer, the client may ask to stop it, and answer what its code reads. */
static int take_notification(struct control_client *client, const struct jsonrpc_message *message)
{
        struct control_task *task = client->task;

        if (message->kind == JSONRPC_NOTIFICATION && is_method(message, "stay")) {
                stay(client);
                return 0;
        }
        if (message->kind == JSONRPC_NOTIFICATION && is_method(message, "input")) {
                if (task && task->work->input)
                        task->work->input(task, message->params);
                return 0;
        }
        if (message->kind != JSONRPC_NOTIFICATION || !is_method(message, "interrupt"))
                return -EPROTO;
        if (task && task->work->stop)
                task->work->stop(task);
        return 0;
}

/* Returns negative when the client is to be dropped. */
static int take_line(struct control_client *client, const char *line, size_t n)
{
        _cleanup_jsonrpc_ struct jsonrpc_message message;
        _cleanup_buffer_ struct buffer out = BUFFER_INIT(2 * ANSWER_MAX);
        struct error err = {};

        int r = jsonrpc_parse(line, n, &message, &err);
        if (r >= 0 && (client->task || message.kind != JSONRPC_REQUEST))
                return take_notification(client, &message);
        if (r < 0)
                r = jsonrpc_append_error(&out, NULL, JSONRPC_INVALID_REQUEST, err.text, NULL, 0);
        else
                r = call(client, &message, &out);
        if (r >= 0 && out.length > 0)
                r = bufferevent_write(client->stream, buffer_bytes(&out), out.length);
        return r;
}

/* One request at a time: the next one is read after the answer was written. */
static void on_readable(struct bufferevent *stream, void *data)
{
        struct control_client *client = data;
        struct evbuffer *input = bufferevent_get_input(stream);
        size_t n = 0;

        for (;;) {
                if (!client->task && evbuffer_get_length(bufferevent_get_output(stream)) > 0)
                        return;
                char *line = evbuffer_readln(input, &n, EVBUFFER_EOL_LF);
                if (!line) {
                        if (evbuffer_get_length(input) >= CONTROL_LINE_MAX)
                                client_free(client);
                        return;
                }
                int r = take_line(client, line, n);
                free(line);
                if (r < 0) {
                        client_free(client);
                        return;
                }
        }
}

static void on_written(struct bufferevent *stream, void *data)
{
        struct control_client *client = data;

        if (client->task && client->task->work->drained)
                client->task->work->drained(client->task);
        if (!client->task)
                on_readable(stream, data);
}

static void on_event(struct bufferevent *stream, short what, void *data)
{
        client_free(data);
}

static void client_new(struct control *control, int fd)
{
        struct control_client *client = calloc(1, sizeof(*client));
        struct bufferevent *stream = client ? bufferevent_socket_new(control->context.base, fd,
                                                                     BEV_OPT_CLOSE_ON_FREE)
                                            : NULL;

        if (!stream) {
                free(client);
                close(fd);
                return;
        }
        *client = (struct control_client){.control = control, .stream = stream};
        LIST_INSERT_HEAD(&control->clients, client, link);
        control->n_clients++;
        bufferevent_setwatermark(stream, EV_READ, 0, CONTROL_LINE_MAX);
        bufferevent_setcb(stream, on_readable, on_written, on_event, client);
        bufferevent_set_timeouts(stream, &idle, &idle);
        bufferevent_enable(stream, EV_READ | EV_WRITE);
}

static void on_connection(evutil_socket_t listener, short what, void *data)
{
        struct control *control = data;

        int fd = accept4((int)listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
                client_new(control, fd);
        if (control->n_clients >= CONTROL_CLIENTS_MAX)
                event_del(control->readable);
}

int control_new(struct control **ret, int listener, const struct control_context *context,
                const struct control_method *methods, struct error *err)
{
        struct control *control = calloc(1, sizeof(*control));

        if (!control) {
                close(listener);
                return error_errno(err, ENOMEM, "control socket");
        }
        *control = (struct control){.context = *context, .methods = methods, .listener = listener};
        LIST_INIT(&control->clients);
        LIST_INIT(&control->tasks);
        control->readable = event_new(context->base, listener, EV_READ | EV_PERSIST, on_connection,
                                      control);
        if (!control->readable || event_add(control->readable, NULL) < 0) {
                control_free(control);
                return error_errno(err, ENOMEM, "control socket");
        }
        *ret = control;
        return 0;
}

struct control *control_free(struct control *control)
{
        if (!control)
                return NULL;
        if (control->readable)
                event_free(control->readable);
        control->readable = NULL;
        while (!LIST_EMPTY(&control->tasks)) {
                struct control_task *task = LIST_FIRST(&control->tasks);
                task_end(task);
                task->work->free(task);
        }
        while (!LIST_EMPTY(&control->clients))
                client_free(LIST_FIRST(&control->clients));
        close(control->listener);
        free(control);
        return NULL;
}
