/* The books of one server. */
#include "supervisor/hub/call/books.h"

#include <stdlib.h>
#include <string.h>

struct owed {
        LIST_ENTRY(owed) link;
        int64_t id;
        uint64_t since_us;
        enum book_kind kind;
        bool is_reason; /* a message for another principal was refused because of it */
        size_t n;
        char principal[];
};

static bool is_of(const struct owed *owed, struct book_principal of)
{
        return owed->n == of.n && memcmp(owed->principal, of.name, of.n) == 0;
}

static void drop(struct owed *owed)
{
        LIST_REMOVE(owed, link);
        free(owed);
}

/* Leaves room for one more of the principal: its two oldest become one that no answer ends. */
static void merge_oldest(struct books *books, struct book_principal of)
{
        struct owed *owed, *oldest = NULL, *second = NULL;
        size_t n = 0;

        LIST_FOREACH (owed, &books->owed, link) {
                if (!is_of(owed, of))
                        continue;
                second = oldest;
                oldest = owed;
                n++;
        }
        if (n < BOOK_OWED_MAX)
                return;
        oldest->id = 0;
        if (second->since_us < oldest->since_us)
                oldest->since_us = second->since_us;
        oldest->is_reason |= second->is_reason;
        drop(second);
}

void books_owe(struct books *books, struct book_principal of, int64_t id, enum book_kind kind,
               uint64_t since_us)
{
        struct owed *owed = calloc(1, sizeof(*owed) + of.n);

        books->is_incomplete |= !owed;
        if (!owed)
                return;
        merge_oldest(books, of);
        owed->id = id;
        owed->since_us = since_us;
        owed->kind = kind;
        owed->n = of.n;
        memcpy(owed->principal, of.name, of.n);
        LIST_INSERT_HEAD(&books->owed, owed, link);
}

bool book_task_ended(yyjson_val *task)
{
        yyjson_val *status = yyjson_obj_get(task, "status");

        return yyjson_equals_str(status, "cancelled") || yyjson_equals_str(status, "completed") ||
               yyjson_equals_str(status, "failed");
}

yyjson_val *book_task_of(yyjson_val *result)
{
        yyjson_val *task = yyjson_obj_get(result, "task");

        return task ? task : yyjson_obj_get(result, "taskId") ? result : NULL;
}

int64_t *books_answered(struct books *books, int64_t id, yyjson_val *result)
{
        struct owed *owed;

        LIST_FOREACH (owed, &books->owed, link) {
                if (id == 0 || owed->id != id)
                        continue;
                bool makes_task = owed->kind == BOOK_MAKES_TASK;
                yyjson_val *task = makes_task ? book_task_of(result) : result;
                if (owed->kind == BOOK_CALL || (makes_task && !task) || book_task_ended(task)) {
                        drop(owed);
                        return NULL;
                }
                owed->id = 0;
                owed->kind = BOOK_TASK;
                return makes_task ? &owed->id : NULL;
        }
        return NULL;
}

bool books_have_other(struct books *books, struct book_principal than, bool refuse)
{
        struct owed *owed;
        bool found = books->is_incomplete;

        LIST_FOREACH (owed, &books->owed, link) {
                if (is_of(owed, than))
                        continue;
                found = true;
                owed->is_reason |= refuse;
        }
        return found;
}

uint64_t books_restart_at(const struct books *books)
{
        const struct owed *owed;
        uint64_t first = UINT64_MAX;

        LIST_FOREACH (owed, &books->owed, link) {
                if (owed->is_reason && owed->since_us < first)
                        first = owed->since_us;
        }
        return first == UINT64_MAX ? 0 : first + BOOK_RESTART_MS * UINT64_C(1000);
}

void books_clear(struct books *books)
{
        while (!LIST_EMPTY(&books->owed))
                drop(LIST_FIRST(&books->owed));
        books->is_private = books->is_incomplete = false;
}
