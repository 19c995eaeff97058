/*
 * The books of one server: the calls that were sent, are not wanted any more (cancelled, timed out, their session has
 * ended), and on which the server may still work and ask a person. Such a call is owed, with its principal, until the
 * server answers it or its process ends.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/json.h"

enum {
        BOOK_OWED_MAX = 64, /* of a principal; older ones are one entry that no answer ends */
        BOOK_RESTART_MS =
                60000, /* the age of an owed call that is a reason to restart the server */
};

/* Which answer to the request ends the owed call. */
enum book_kind {
        BOOK_CALL,
        BOOK_MAKES_TASK, /* any; if it creates a task, this one is owed then */
        BOOK_TASK,       /* of tasks/cancel: one that says that the task has ended */
};

struct book_principal {
        const char *name; /* not terminated */
        size_t n;
};

struct books {
        LIST_HEAD(owed_list, owed) owed; /* the newest first */
        bool is_incomplete; /* a call could not be noted: counts as one of another principal */
        bool is_private;    /* the process was sent calls of a principal that has a name */
};

/* id: of the request; 0: no answer ends it. since_us: when the call began. */
void books_owe(struct books *books, struct book_principal of, int64_t id, enum book_kind kind,
               uint64_t since_us);
/* An answer to a request that no call waits for. If it creates a task, the call stays owed: returns where the id of the
 * request that cancels the task belongs, otherwise NULL. */
int64_t *books_answered(struct books *books, int64_t id, yyjson_val *result);
/* A task that an answer creates ("Tasks", 2025-11-25), or that it is (2026-07-28), or NULL. */
yyjson_val *book_task_of(yyjson_val *result);
/* Whether principals other than this one have owed calls. refuse: a message is refused because of them. */
bool books_have_other(struct books *books, struct book_principal than, bool refuse);
/* When (us) the oldest call because of which a message was refused is BOOK_RESTART_MS old; 0: there is none. */
uint64_t books_restart_at(const struct books *books);
/* Whether a task, as a server describes it, has ended. */
bool book_task_ended(yyjson_val *task);
/* The process has ended: no call is owed any more. */
void books_clear(struct books *books);
