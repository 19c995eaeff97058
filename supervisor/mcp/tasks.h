/*
 * Tasks: calls whose answer is kept and asked for later, so that they outlive their request, its connection, and
 * the time for which a client waits.
 *
 * Two forms: in 2025-11-25 the client asks for one (params.task), in 2026-07-28 the server makes one of a call that
 * takes longer than TASK_AFTER_MS if the client declares the extension io.modelcontextprotocol/tasks. A task belongs to its
 * principal and is kept until its time to live is over, counted from its creation.
 *
 * Theory of operation. A task stands between a request and its call: the call gets a reply that has the task
 * (reply.h), and mcp_answer() gives the answer to it. Until the client was told of the task, it only passes the answer on,
 * so that errors, and calls that are quick, are answered as without it. Whatever answers by mcp_answer() can be
 * a task; to be cancelled it calls task_attach().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "supervisor/mcp/reply.h"
#include "supervisor/mcp/request.h"

struct mcp_peer;
struct mcp_principal;
struct mcp_server;
struct mcp_task;
struct subscription;

enum {
        TASKS_MAX = 128,                    /* of a principal; those that are read make room */
        TASKS_BYTES_MAX = 64 * 1024 * 1024, /* of their results together */
        TASK_RESULT_MAX = 32 * 1024 * 1024, /* of one */
        TASK_WAITERS_MAX = 64,              /* tasks/result of a principal that wait */
        TASKS_PAGE = 50,                    /* of tasks/list */
        TASK_TTL_MS = 3600 * 1000, /* if none is asked for; and the longest time of a cell */
        TASK_TTL_MIN_MS = 1000,
        TASK_TTL_MAX_MS = 24 * 3600 * 1000,
        TASK_POLL_MS = 1000,
        TASK_AFTER_MS = 500,
        TASK_ID_MAX = 64, /* bytes of an id in a request */
};

#define TASKS_EXTENSION "io.modelcontextprotocol/tasks"

/* The tasks of a principal. */
TAILQ_HEAD(task_queue, mcp_task);
struct tasks {
        struct task_queue list; /* the newest first; not initialised while n is 0 and serial is 0 */
        size_t n, bytes, n_waiting;
        uint64_t serial; /* of the newest */
};

void tasks_done(struct tasks *tasks);

/* tools/call, with a task if the request or the client says so. Takes ownership of the reply. */
void tasks_call(struct mcp_server *server, const struct mcp_request *request, struct reply *reply);

/* ---- for the call ---- */

struct task_work {
        /* The request was answered with the task: its peer may end. silent: no notifications any more. */
        void (*detach)(void *data, bool silent);
        /* No answer is wanted any more; reply.task is forgotten already. */
        void (*cancel)(void *data);
        /* Appends what the client is asked for, as inputRequests. Returns 1, 0 if there is nothing, or negative
         * errno. */
        int (*append_input)(void *data, struct buffer *to);
        /* inputResponses, not checked; unknown ones are ignored. It may end the work. */
        void (*give_input)(void *data, yyjson_val *responses);
};
/* reply: the call's own, with a task; the call stays where it is until that is answered or done. */
void task_attach(struct reply *reply, const struct task_work *work, void *data);
/* The id for notifications, or NULL. */
const char *task_id(const struct reply *reply);
/* Whether the client was told of it. */
bool task_is_announced(const struct reply *reply);
/* The work wants to know something of the client. */
void task_asks(struct reply *reply);

/* ---- for answer.c and reply.c: the end of a reply with a task ---- */

/* Returns whether the task keeps the answer; else the reply is now that to the request, and is to be answered. */
bool task_take_result(struct reply *reply, const struct buffer *result);
bool task_take_error(struct reply *reply, int code, const char *message, const struct buffer *data);
/* The reply ends without an answer. */
void task_reply_done(struct reply *reply);

/* ---- methods ---- */

void tasks_get(struct mcp_server *server, const struct mcp_request *request, struct reply *reply);
void tasks_result(struct mcp_server *server, const struct mcp_request *request,
                  struct reply *reply);
void tasks_list(struct mcp_server *server, const struct mcp_request *request, struct reply *reply);
void tasks_update(struct mcp_server *server, const struct mcp_request *request,
                  struct reply *reply);
void tasks_cancel(struct mcp_server *server, const struct mcp_request *request,
                  struct reply *reply);

/* A tasks/result that waits. */
bool tasks_wait_is_pending(const struct mcp_peer *peer, yyjson_val *id);
bool tasks_wait_cancel(struct mcp_peer *peer, yyjson_val *id);
/* The peer ends: its tasks go on. */
void tasks_drop_peer(struct mcp_peer *peer);

/* Whether a client's request declares the extension. */
bool tasks_declared(const struct mcp_request *request);
/* Answers a request that needs it. */
void tasks_answer_undeclared(struct mcp_server *server, struct reply *reply);
/* The task of this principal, or NULL. */
struct mcp_task *tasks_find(const struct mcp_principal *principal, const char *id);
/* Appends the members of notifications/tasks, with the result, without braces. */
int task_append_detailed(const struct mcp_task *task, struct buffer *to);
bool task_has_ended(const struct mcp_task *task);
