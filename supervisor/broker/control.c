/* The control socket. */
#include "supervisor/broker/control.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "rpc/jsonrpc.h"

enum { ANSWER_MAX = 16 * 1024 * 1024 };

struct client {
        LIST_ENTRY(client) link;
        struct control *control;
        struct bufferevent *stream;
};

struct control {
        struct event_base *base;
        struct sessions *sessions;
        int listener;
        struct event *readable;
        LIST_HEAD(, client) clients;
        size_t n_clients;
};

static void client_free(struct client *client)
{
        struct control *control = client->control;

        LIST_REMOVE(client, link);
        /* A connection may wait in the backlog. */
        if (control->n_clients-- == CONTROL_CLIENTS_MAX && control->readable)
                event_add(control->readable, NULL);
        bufferevent_free(client->stream);
        free(client);
}

static int answer_list(struct control *control, yyjson_val *params, struct buffer *result,
                       struct error *err)
{
        struct sessions_count count;

        sessions_count(control->sessions, &count);
        int r = buffer_printf(result,
                              "{\"sessions_max\":%zu,\"ready\":%zu,\"sessions\":", count.max,
                              count.spares_ready);
        if (r >= 0)
                r = sessions_append_list(control->sessions, result);
        if (r >= 0)
                r = buffer_append(result, "}", 1);
        return r < 0 ? error_errno(err, -r, "list the sessions") : 0;
}

static int command(struct control *control, yyjson_val *params, struct buffer *result,
                   int (*act)(struct sessions *, const char *, struct error *), struct error *err)
{
        size_t n = 0;
        const char *name = json_string(params, "name", &n);

        if (!name || !session_key_valid(name, n))
                return error_set(err, EINVAL, "name: a session's name is needed");
        int r = act(control->sessions, name, err);
        return r < 0 ? r : buffer_append(result, "{}", 2);
}

static int answer_end(struct control *control, yyjson_val *params, struct buffer *result,
                      struct error *err)
{
        return command(control, params, result, sessions_end, err);
}

static int answer_reset(struct control *control, yyjson_val *params, struct buffer *result,
                        struct error *err)
{
        return command(control, params, result, sessions_reset, err);
}

static const struct {
        const char *name;
        int (*answer)(struct control *control, yyjson_val *params, struct buffer *result,
                      struct error *err);
} methods[] = {
        {"sessions/list", answer_list},
        {"sessions/end", answer_end},
        {"sessions/reset", answer_reset},
};

static int code_of(int r)
{
        return r == -ENOENT   ? CONTROL_NO_SESSION
               : r == -EINVAL ? JSONRPC_INVALID_PARAMS
                              : JSONRPC_INTERNAL_ERROR;
}

static int answer(struct control *control, const struct jsonrpc_message *message, struct buffer *to)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(ANSWER_MAX);
        struct error err = {};

        for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
                if (message->method_length != strlen(methods[i].name) ||
                    memcmp(message->method, methods[i].name, message->method_length) != 0)
                        continue;
                int r = methods[i].answer(control, message->params, &result, &err);
                if (r < 0)
                        return jsonrpc_append_error(to, message->id, code_of(r), err.text, NULL, 0);
                return jsonrpc_append_result(to, message->id, buffer_bytes(&result), result.length);
        }
        return jsonrpc_append_error(to, message->id, JSONRPC_METHOD_NOT_FOUND, "method not found",
                                    NULL, 0);
}

/* Returns negative when the client is to be dropped. */
static int take_line(struct client *client, const char *line, size_t n)
{
        _cleanup_jsonrpc_ struct jsonrpc_message message;
        _cleanup_buffer_ struct buffer out = BUFFER_INIT(2 * ANSWER_MAX);
        struct error err = {};

        int r = jsonrpc_parse(line, n, &message, &err);
        if (r >= 0 && message.kind != JSONRPC_REQUEST)
                return -EPROTO;
        if (r < 0)
                r = jsonrpc_append_error(&out, NULL, JSONRPC_INVALID_REQUEST, err.text, NULL, 0);
        else
                r = answer(client->control, &message, &out);
        if (r >= 0)
                r = bufferevent_write(client->stream, buffer_bytes(&out), out.length);
        return r;
}

/* One request at a time: the next one is read after the answer was written. */
static void on_readable(struct bufferevent *stream, void *data)
{
        struct client *client = data;
        struct evbuffer *input = bufferevent_get_input(stream);
        size_t n = 0;

        if (evbuffer_get_length(bufferevent_get_output(stream)) > 0)
                return;
        char *line = evbuffer_readln(input, &n, EVBUFFER_EOL_LF);
        if (!line) {
                if (evbuffer_get_length(input) >= CONTROL_LINE_MAX)
                        client_free(client);
                return;
        }
        int r = take_line(client, line, n);
        free(line);
        if (r < 0)
                client_free(client);
}

static void on_written(struct bufferevent *stream, void *data)
{
        on_readable(stream, data);
}

static void on_event(struct bufferevent *stream, short what, void *data)
{
        client_free(data);
}

static int client_new(struct control *control, int fd)
{
        static const struct timeval idle = {.tv_sec = CONTROL_IDLE_SECONDS};
        struct client *client = calloc(1, sizeof(*client));
        struct bufferevent *stream = client ? bufferevent_socket_new(control->base, fd,
                                                                     BEV_OPT_CLOSE_ON_FREE)
                                            : NULL;

        if (!stream) {
                free(client);
                close(fd);
                return -ENOMEM;
        }
        *client = (struct client){.control = control, .stream = stream};
        LIST_INSERT_HEAD(&control->clients, client, link);
        control->n_clients++;
        bufferevent_setwatermark(stream, EV_READ, 0, CONTROL_LINE_MAX);
        bufferevent_setcb(stream, on_readable, on_written, on_event, client);
        bufferevent_set_timeouts(stream, &idle, &idle);
        bufferevent_enable(stream, EV_READ | EV_WRITE);
        return 0;
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

int control_new(struct control **ret, struct event_base *base, int listener,
                struct sessions *sessions, struct error *err)
{
        struct control *control = calloc(1, sizeof(*control));

        if (!control) {
                close(listener);
                return error_errno(err, ENOMEM, "control socket");
        }
        *control = (struct control){.base = base, .sessions = sessions, .listener = listener};
        LIST_INIT(&control->clients);
        control->readable = event_new(base, listener, EV_READ | EV_PERSIST, on_connection, control);
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
        while (!LIST_EMPTY(&control->clients))
                client_free(LIST_FIRST(&control->clients));
        close(control->listener);
        free(control);
        return NULL;
}
