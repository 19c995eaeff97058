/* What the files of tasks share. */
#pragma once

#include <event2/event.h>

#include "base/unguessable.h"
#include "supervisor/mcp/server-internal.h"
#include "supervisor/mcp/tasks.h"

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
        char id[UNGUESSABLE_LENGTH + 1];
        uint64_t serial;
        enum mcp_era era;
        enum task_status status;
        bool required;       /* the tool's result is given as a task only */
        bool announced;      /* the client was told of it */
        bool read;           /* the client has the result: it may make room for others */
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

/* Ends its work without an answer. */
void task_cancel(struct mcp_task *task);
void task_free(struct mcp_task *task);
/* Answers one request for the result. */
void task_answer_result(struct mcp_task *task, struct reply *reply);
/* Appends {"taskId",…} as 2025-11-25 has it. */
int task_append_legacy(const struct mcp_task *task, struct buffer *to);
/* Appends the members of the modern one, without braces and without its result. */
int task_append_modern(const struct mcp_task *task, struct buffer *to);
