/* What the files of the control socket share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "base/buffer.h"
#include "base/error.h"
#include "rpc/jsonrpc.h"
#include "supervisor/broker/control.h"

struct control_client;

/* A request that is answered later. Embedded in what the request needs; a client has at most one. */
struct control_task {
        LIST_ENTRY(control_task) link;
        struct control *control;
        struct control_client *client;  /* NULL: it has left, and nobody reads the answer */
        struct jsonrpc_message request; /* owned */
        const struct control_work *work;
};

struct control_work {
        /* The client asks to stop it, or has left; NULL: it goes on. */
        void (*stop)(struct control_task *task);
        /* What was sent to the client has been read; NULL: it does not wait for this. */
        void (*drained)(struct control_task *task);
        /* At the end of the broker: frees it without an answer. Its cells and requests are gone by then. */
        void (*free)(struct control_task *task);
};

struct sessions *control_sessions(const struct control *control);
struct event_base *control_base(const struct control *control);
size_t control_n_tasks(const struct control *control);

/* Takes the message over; the members of task but these are the caller's. */
void control_task_begin(struct control_client *client, struct control_task *task,
                        const struct control_work *work, struct jsonrpc_message *request);
/* Sends a line. Returns how many bytes the client has not read. */
size_t control_task_send(struct control_task *task, const struct buffer *line);
/* Each ends the task: the caller frees what it is embedded in. */
void control_task_answer(struct control_task *task, const struct buffer *result);
void control_task_refuse(struct control_task *task, const struct error *error);

/* Without an answer. */
void control_task_end(struct control_task *task);

/* The session that a request names, which has a sandbox; the error fits control_code(). */
int control_session(struct control *control, yyjson_val *params, const char **key,
                    struct session **ret, struct error *err);

/* Requests: each begins a task, or returns negative errno and an error. */
int control_exec(struct control_client *client, struct control *control,
                 struct jsonrpc_message *request, struct error *err);
int control_probe(struct control_client *client, struct control *control,
                  struct jsonrpc_message *request, struct error *err);
int control_list_files(struct control_client *client, struct control *control,
                       struct jsonrpc_message *request, struct error *err);
int control_get_file(struct control_client *client, struct control *control,
                     struct jsonrpc_message *request, struct error *err);
int control_put_file(struct control_client *client, struct control *control,
                     struct jsonrpc_message *request, struct error *err);
