/*
 * Requests of the owner of a running server, over a socket that only the owner may open
 * (policy/control-path.h): JSON-RPC 2.0, one message per line. The methods are a table (control-methods.h). A client has one request at a time, which is answered at once or by a task; meanwhile
 * it sends nothing else but the notifications "interrupt", "input" (control-exec.c) and "stay" (it is a prompt, and may be silent). A client that leaves stops its task. No more can be done over the socket
 * than a client of MCP can do.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "base/buffer.h"
#include "base/error.h"
#include "rpc/jsonrpc.h"
#include "supervisor/session/session.h"
#include "supervisor/session/sessions.h"

struct control_service;
struct hub;
struct network;
struct control;
struct control_client;

enum {
        CONTROL_CLIENTS_MAX = 24,           /* more wait in the socket's backlog */
        CONTROL_TASKS_MAX = 16,             /* at the same time; another one is refused */
        CONTROL_LINE_MAX = 2 * 1024 * 1024, /* bytes of a request */
        CONTROL_IDLE_SECONDS = 10, /* a client that sends nothing for this time is dropped */
        CONTROL_STAYING_MAX = 12,  /* prompts, which are not dropped; more are */

        CONTROL_NO_SESSION = -32001,
        CONTROL_BUSY = -32002,
};

/* The objects that methods use; borrowed. */
struct control_context {
        struct event_base *base;
        struct sessions *sessions;
        const struct network *network;         /* or NULL */
        const struct hub *hub;                 /* or NULL */
        const char *mode;                      /* "serve" or another name */
        const struct control_service *service; /* of `cloister serve`, or NULL */
};

/* One of the two members is NULL. Both return negative errno with an error. */
struct control_method {
        const char *name;
        bool unrecorded; /* it changes nothing, and is called often: not an event */
        /* Appends the answer. */
        int (*answer)(const struct control_context *context, yyjson_val *params,
                      struct buffer *result, struct error *err);
        /* Begins a task, which takes the message over. */
        int (*begin)(struct control_client *client, struct control *control,
                     struct jsonrpc_message *request, struct error *err);
};

/* listener: a listening, non-blocking socket, ownership is taken. methods: static, ended by a name that is NULL. */
int control_new(struct control **ret, int listener, const struct control_context *context,
                const struct control_method *methods, struct error *err);
/* Call it after the sessions were freed. */
struct control *control_free(struct control *control);

/* A request that is answered later. Embedded in what the request needs; a client has at most one. */
struct control_task {
        LIST_ENTRY(control_task) link;
        struct control *control;
        struct control_client *client;  /* NULL: it has disconnected */
        struct jsonrpc_message request; /* owned */
        const struct control_work *work;
};

struct control_work {
        /* The client asks to stop it, or has disconnected; NULL: it continues. */
        void (*stop)(struct control_task *task);
        /* The client has read all that was sent; NULL: it does not wait for this. */
        void (*drained)(struct control_task *task);
        /* The client has sent the notification "input"; NULL: it is ignored. */
        void (*input)(struct control_task *task, yyjson_val *params);
        /* At the end of the broker: frees it without an answer. Its cells and requests have been freed. */
        void (*free)(struct control_task *task);
};

const struct control_context *control_context(const struct control *control);

/* Takes the member "name", of a session. Returns -EINVAL with an error. */
int control_take_name(yyjson_val *params, const char **ret, struct error *err);
/* Finds the session of that name, which must have a sandbox. key: may be NULL; points into params. Returns -EINVAL
 * or -ENOENT with an error. */
int control_session(const struct control *control, yyjson_val *params, const char **key,
                    struct session **ret, struct error *err);

/* Returns -EBUSY if CONTROL_TASKS_MAX tasks run. Otherwise call control_task_begin(). */
int control_check_room(const struct control *control, struct error *err);
/* Takes the message over; the members of task but these are the caller's. */
void control_task_begin(struct control_client *client, struct control_task *task,
                        const struct control_work *work, struct jsonrpc_message *request);
/* Sends a line. Returns how many bytes the client has not read. */
size_t control_task_send(struct control_task *task, const struct buffer *line);
/* Ends the task with an answer, or with an error if that is set. The caller frees what the task is embedded in. */
void control_task_finish(struct control_task *task, const struct buffer *result,
                         const struct error *error);
