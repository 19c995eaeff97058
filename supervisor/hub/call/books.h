/*
 * The books of one server: for each principal, the calls that the server works on, as far as is known.
 *
 * A call that was sent and is not wanted any more (cancelled, timed out, its session has ended) is owed: the server may
 * still work on it, and ask a person because of it. It stays on the books until the server answers it, or its process has
 * ended. A principal has a bounded list of such calls; one that leaves the list unanswered keeps the principal on the books.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/json.h"

enum {
        BOOK_OWED_MAX = 64, /* of a principal: the newest */
        BOOK_RESTART_MS =
                60000, /* the age of an owed call that is a reason to restart the server */
};

/* How the answer to a request is recognised as the answer to the owed call. */
enum book_kind {
        BOOK_CALL,       /* any answer */
        BOOK_MAKES_TASK, /* any answer; it may create a task, which must be cancelled */
        BOOK_TASK,       /* of tasks/cancel: an answer that says that the task has ended */
};

struct book;

struct books {
        LIST_HEAD(book_list, book) list;
        bool is_refusing; /* a message for another principal was refused because of an owed call */
        bool is_private;  /* the process was sent calls of a principal that has a name */
};

/* Opens the book of a principal for one more call: it is kept until books_close(). Returns NULL when out of memory. */
struct book *books_open(struct books *books, const char *principal, size_t n);
/* The call has been answered or is owed now. */
void books_close(struct book *book);
/* id: of the request whose answer ends it; 0: none is recognised. since_us: when the call began. */
void book_owe(struct book *book, int64_t id, enum book_kind kind, uint64_t since_us);
/* An answer to a request that no call waits for. Returns whether the call may have created a task. */
bool books_answered(struct books *books, int64_t id, yyjson_val *result);
/* Whether a principal other than that of the book, which may be NULL, has owed calls. refuse: notes that a message is
 * refused because of that. */
bool books_have_other(struct books *books, const struct book *book, bool refuse);
/* If messages were refused: when (us) the oldest call that is a reason is BOOK_RESTART_MS old; otherwise 0. */
uint64_t books_restart_at(const struct books *books);
/* Whether a task, as a server describes it, has ended. */
bool book_task_ended(yyjson_val *task);
/* The process has ended: nothing is owed any more. */
void books_clear(struct books *books);
