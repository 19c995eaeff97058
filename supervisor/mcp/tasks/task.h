/*
 * A task: the result of a call, kept for requests that come later, and how clients see it.
 * tasks.h creates and ends tasks.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/json-out.h"
#include "supervisor/mcp/reply.h"
#include "supervisor/mcp/request.h"
#include "supervisor/service/node.h"

struct mcp_peer;
struct mcp_principal;
struct mcp_server;
struct mcp_task;

enum {
        TASKS_MAX = 128,                    /* of a principal; those that are read make room */
        TASKS_BYTES_MAX = 64 * 1024 * 1024, /* of their results together */
        TASK_RESULT_MAX = 32 * 1024 * 1024, /* of one */
        TASK_WAITERS_MAX = 64,              /* tasks/result of a principal that wait */
        TASKS_PAGE = 50,                    /* of tasks/list */
        TASK_TTL_MS = 3600 * 1000, /* if the request names none; and the longest time of a cell */
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

/* The functions of the call that works for a task. */
struct task_work {
        /* The request was answered with the task: its peer may end. silent: no notifications any more. */
        void (*detach)(void *data, bool silent);
        /* No answer is wanted any more; reply.task is forgotten already. */
        void (*cancel)(void *data);
        /* Appends the questions to the client, as inputRequests. Returns 1, 0 if there is nothing, or negative
         * errno. */
        int (*append_input)(void *data, struct buffer *to);
        /* inputResponses, not checked; unknown ones are ignored. It may end the work. */
        void (*give_input)(void *data, yyjson_val *responses);
};

enum task_status { TASK_WORKING, TASK_COMPLETED, TASK_FAILED, TASK_CANCELLED, TASK_STATUS_MAX };

/* A tasks/result that waits for the end. */
struct task_waiter {
        struct task_waiter *next;
        struct mcp_peer *peer;
        struct reply reply;
};

struct mcp_task {
        TAILQ_ENTRY(mcp_task) link; /* once it was announced */
        struct mcp_server *server;
        struct mcp_principal *principal;
        struct mcp_peer *
                peer; /* of a legacy client, for notifications; NULL: it has ended, or a modern one */
        char id[NODE_MINTED_MAX + 1];
        uint64_t serial;
        enum mcp_era era;
        enum task_status status;
        bool required;       /* the tool's result is given as a task only */
        bool announced;      /* the client has got the task */
        bool read;           /* the client has the result: it may make room for others */
        bool is_unread;      /* it has ended, and counts among those that no client has read */
        bool is_error;       /* of the result: isError */
        bool *gone;          /* set when it is freed, or NULL */
        struct reply origin; /* until it is announced: of the request */
        struct reply *reply; /* the call's, while it works; or NULL */
        const struct task_work *work;
        void *work_data;
        int64_t created_ms, updated_ms; /* of the calendar */
        uint64_t ttl_ms, born_us;
        struct event *timer;   /* to be announced, then to be forgotten */
        struct buffer payload; /* the result, or the error object */
        struct task_waiter *waiters;
};

/* The task of this principal, or NULL. */
struct mcp_task *tasks_find(const struct mcp_principal *principal, const char *id);
/* Whether the client has got the task. */
bool task_is_announced(const struct reply *reply);

/* Whether a client's request declares the extension. */
bool tasks_declared(const struct mcp_request *request);
/* Answers a request that needs it. */
void tasks_reply_undeclared(struct reply *reply);

/* Puts the members of a task as the era has them, without the result. status: NULL: its own. */
void task_put(struct json_out *out, const struct mcp_task *task, enum mcp_era era,
              const char *status);
/* As 2026-07-28 has them, with the result or with the questions to the client. */
void task_put_detailed(struct json_out *out, const struct mcp_task *task);
/* The name of its status in 2025-11-25. */
const char *task_status_legacy(const struct mcp_task *task);
