/* The books of one server. */
#include "supervisor/hub/call/books.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct owed {
        int64_t id;        /* 0: the entry is free */
        uint64_t since_us; /* 0: the same */
        enum book_kind kind;
        bool is_reason; /* a message for another principal was refused because of it */
};

struct book {
        LIST_ENTRY(book) link;
        size_t n_open;       /* calls that are waited for */
        struct owed *owed;   /* a ring of BOOK_OWED_MAX, or NULL */
        size_t n_owed;       /* ever put into it */
        struct owed lasting; /* the oldest call that no answer ends; its id is 0 */
        size_t n;
        char principal[];
};

/* When the oldest owed call began, or the oldest that is a reason; 0: there is none. */
static uint64_t oldest(const struct book *book, bool reasons)
{
        uint64_t since = 0;

        for (size_t i = 0; i < (book->owed ? BOOK_OWED_MAX + 1 : 1); i++) {
                const struct owed *owed = i > 0 ? &book->owed[i - 1] : &book->lasting;
                if (owed->since_us != 0 && (!reasons || owed->is_reason) &&
                    (since == 0 || owed->since_us < since))
                        since = owed->since_us;
        }
        return since;
}

static void free_if_empty(struct book *book)
{
        if (book->n_open > 0 || oldest(book, false) != 0)
                return;
        LIST_REMOVE(book, link);
        free(book->owed);
        free(book);
}

struct book *books_open(struct books *books, const char *principal, size_t n)
{
        struct book *book;

        LIST_FOREACH (book, &books->list, link) {
                if (book->n == n && memcmp(book->principal, principal, n) == 0)
                        break;
        }
        if (!book) {
                book = calloc(1, sizeof(*book) + n);
                if (!book)
                        return NULL;
                book->n = n;
                memcpy(book->principal, principal, n);
                LIST_INSERT_HEAD(&books->list, book, link);
        }
        books->is_private |= n > 0;
        book->n_open++;
        return book;
}

void books_close(struct book *book)
{
        book->n_open--;
        free_if_empty(book);
}

/* No answer ends the call. */
static void make_lasting(struct book *book, const struct owed *owed)
{
        struct owed *lasting = &book->lasting;

        if (lasting->since_us == 0 || owed->since_us < lasting->since_us)
                lasting->since_us = owed->since_us;
        lasting->is_reason |= owed->is_reason;
}

void book_owe(struct book *book, int64_t id, enum book_kind kind, uint64_t since_us)
{
        const struct owed owed = {.id = id, .since_us = since_us, .kind = kind};

        if (id > 0 && !book->owed)
                book->owed = calloc(BOOK_OWED_MAX, sizeof(struct owed));
        if (id <= 0 || !book->owed) {
                make_lasting(book, &owed);
                return;
        }
        struct owed *at = &book->owed[book->n_owed++ % BOOK_OWED_MAX];
        if (at->since_us != 0)
                make_lasting(book, at);
        *at = owed;
}

bool book_task_ended(yyjson_val *task)
{
        static const char *const ends[] = {"cancelled", "completed", "failed"};

        for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
                if (yyjson_equals_str(yyjson_obj_get(task, "status"), ends[i]))
                        return true;
        }
        return false;
}

static struct owed *find(const struct book *book, int64_t id)
{
        for (size_t i = 0; book->owed && id != 0 && i < BOOK_OWED_MAX; i++) {
                if (book->owed[i].id == id)
                        return &book->owed[i];
        }
        return NULL;
}

bool books_answered(struct books *books, int64_t id, yyjson_val *result)
{
        struct owed *owed = NULL;
        struct book *book;

        LIST_FOREACH (book, &books->list, link) {
                owed = find(book, id);
                if (owed)
                        break;
        }
        if (!owed)
                return false;
        bool makes_task = owed->kind == BOOK_MAKES_TASK;
        if (owed->kind == BOOK_TASK && !book_task_ended(result))
                make_lasting(book, owed);
        *owed = (struct owed){};
        free_if_empty(book);
        return makes_task;
}

bool books_have_other(struct books *books, const struct book *book, bool refuse)
{
        struct book *other;
        bool found = false;

        LIST_FOREACH (other, &books->list, link) {
                if (other == book || oldest(other, false) == 0)
                        continue;
                found = true;
                other->lasting.is_reason |= refuse && other->lasting.since_us != 0;
                for (size_t i = 0; other->owed && i < BOOK_OWED_MAX; i++)
                        other->owed[i].is_reason |= refuse;
                books->is_refusing |= refuse;
        }
        return found;
}

uint64_t books_restart_at(const struct books *books)
{
        const struct book *book;
        uint64_t first = 0;

        if (!books->is_refusing)
                return 0;
        LIST_FOREACH (book, &books->list, link) {
                uint64_t since = oldest(book, true);
                if (since != 0 && (first == 0 || since < first))
                        first = since;
        }
        return first == 0 ? 0 : first + BOOK_RESTART_MS * UINT64_C(1000);
}

void books_clear(struct books *books)
{
        struct book *book, *next;

        for (book = LIST_FIRST(&books->list); book; book = next) {
                next = LIST_NEXT(book, link);
                free(book->owed);
                book->owed = NULL;
                book->lasting = (struct owed){};
                free_if_empty(book);
        }
        books->is_refusing = books->is_private = false;
}
