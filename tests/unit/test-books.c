/* The books of one server. */
#include "supervisor/hub/call/books.h"

#include "base/json.h"
#include "tests/unit/test.h"

enum { S = 1000000 };

static struct book *open_book(struct books *books, const char *principal)
{
        struct book *book = books_open(books, principal, strlen(principal));

        check(book);
        return book;
}

/* A call of a principal begins and is given up. */
static void owe(struct books *books, const char *principal, int64_t id, enum book_kind kind,
                uint64_t since_us)
{
        struct book *book = open_book(books, principal);

        book_owe(book, id, kind, since_us);
        books_close(book);
}

static bool answered(struct books *books, int64_t id, const char *json)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error err = {};

        check_ok(json_parse(json, strlen(json), &doc, &err));
        return books_answered(books, id, yyjson_doc_get_root(doc));
}

static void test_other_principals(void)
{
        struct books books = {};
        struct book *bob = open_book(&books, "bob");

        /* A call that was answered, and one that still waits, keep nothing from bob. */
        books_close(open_book(&books, "alice"));
        struct book *open = open_book(&books, "alice");
        check(!books_have_other(&books, bob, true));
        books_close(open);
        owe(&books, "alice", 7, BOOK_CALL, S);
        check(books_have_other(&books, bob, true));
        check(books_have_other(&books, NULL, true));
        struct book *alice = open_book(&books, "alice");
        check(!books_have_other(&books, alice, true));
        /* A name that begins like another one is another one. */
        struct book *al = open_book(&books, "al");
        check(books_have_other(&books, al, true));
        books_close(al);
        check(!answered(&books, 8, "{}"));
        check(books_have_other(&books, bob, true));
        check(!answered(&books, 7, "{}"));
        check(!books_have_other(&books, bob, true));
        books_close(alice);
        books_close(bob);
        check(LIST_EMPTY(&books.list));
}

static void test_tasks(void)
{
        struct books books = {};

        owe(&books, "", 1, BOOK_MAKES_TASK, S);
        check(answered(&books, 1, "{}"));
        check(!answered(&books, 1, "{}"));
        owe(&books, "", 2, BOOK_TASK, S);
        check(!answered(&books, 2, "{\"status\":\"cancelled\"}"));
        check(LIST_EMPTY(&books.list));
        /* The task may continue. */
        owe(&books, "", 3, BOOK_TASK, S);
        check(!answered(&books, 3, "{\"status\":\"working\"}"));
        check(books_have_other(&books, NULL, true));
        books_clear(&books);
        check(LIST_EMPTY(&books.list));
}

/* The list of a principal is bounded, and an unanswered call that leaves it still counts. */
static void test_limit(void)
{
        struct books books = {};

        for (int i = 1; i <= 10 * BOOK_OWED_MAX; i++)
                owe(&books, "alice", i, BOOK_CALL, (uint64_t)i * S);
        for (int i = 1; i <= 10 * BOOK_OWED_MAX; i++)
                check(!answered(&books, i, "{}"));
        check(books_have_other(&books, NULL, true));
        check_eq_int(books_restart_at(&books), S + BOOK_RESTART_MS * INT64_C(1000));
        books_clear(&books);
        check(!books_have_other(&books, NULL, true));
}

static void test_reasons(void)
{
        struct books books = {};

        owe(&books, "alice", 1, BOOK_CALL, 5 * S);
        owe(&books, "alice", 2, BOOK_CALL, 3 * S);
        check(books_have_other(&books, NULL, false));
        check_eq_int(books_restart_at(&books), 0);
        check(books_have_other(&books, NULL, true));
        check_eq_int(books_restart_at(&books), 63 * S);
        answered(&books, 2, "{}");
        check_eq_int(books_restart_at(&books), 65 * S);
        /* No message was refused because of the third one. */
        owe(&books, "alice", 3, BOOK_CALL, 9 * S);
        answered(&books, 1, "{}");
        check_eq_int(books_restart_at(&books), 0);
        books_clear(&books);
}

static void test_privacy(void)
{
        struct books books = {};

        books_close(open_book(&books, ""));
        check(!books.is_private);
        books_close(open_book(&books, "alice"));
        check(books.is_private);
        books_clear(&books);
        check(!books.is_private);
}

int main(void)
{
        run(test_other_principals);
        run(test_tasks);
        run(test_limit);
        run(test_reasons);
        run(test_privacy);
        return 0;
}
