/* The books of one server. */
#include "supervisor/hub/call/books.h"

#include "base/json.h"
#include "tests/unit/test.h"

enum { S = 1000000 };

static struct book_principal of(const char *principal)
{
        return (struct book_principal){principal, strlen(principal)};
}

static int64_t *answered(struct books *books, int64_t id, const char *json)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error err = {};

        check_ok(json_parse(json, strlen(json), &doc, &err));
        return books_answered(books, id, yyjson_doc_get_root(doc));
}

static void test_other_principals(void)
{
        struct books books = {};

        check(!books_have_other(&books, of("bob"), true));
        books_owe(&books, of("alice"), 7, BOOK_CALL, S);
        check(books_have_other(&books, of("bob"), true));
        check(books_have_other(&books, of(""), true));
        check(!books_have_other(&books, of("alice"), true));
        /* A name that begins like another one is another one. */
        check(books_have_other(&books, of("al"), true));
        check(!answered(&books, 8, "{}"));
        check(books_have_other(&books, of("bob"), true));
        check(!answered(&books, 7, "{}"));
        check(!books_have_other(&books, of("bob"), true));
        check(LIST_EMPTY(&books.owed));
}

static void test_tasks(void)
{
        struct books books = {};

        books_owe(&books, of(""), 1, BOOK_MAKES_TASK, S);
        check(!answered(&books, 1, "{}")); /* it is not a task */
        check(LIST_EMPTY(&books.owed));
        books_owe(&books, of(""), 2, BOOK_TASK, S);
        check(!answered(&books, 2, "{\"status\":\"cancelled\"}"));
        check(LIST_EMPTY(&books.owed));
        /* The task may continue, and no later answer is about it. */
        books_owe(&books, of(""), 3, BOOK_TASK, S);
        check(!answered(&books, 3, "{\"status\":\"working\"}"));
        check(!answered(&books, 3, "{\"status\":\"cancelled\"}"));
        check(!answered(&books, 0, "{}"));
        check(books_have_other(&books, of("bob"), true));
        books_clear(&books);
        check(LIST_EMPTY(&books.owed));
}

/* The call has ended before the server created its task, which is cancelled then. */
static void test_late_tasks(void)
{
        static const char *const tasks[] = {"{\"task\":{\"taskId\":\"t\",\"status\":\"working\"}}",
                                            "{\"taskId\":\"t\",\"status\":\"working\"}",
                                            "{\"task\":{}}"};
        struct books books = {};

        for (size_t i = 0; i < ARRAY_SIZE(tasks); i++) {
                books_owe(&books, of("alice"), 1, BOOK_MAKES_TASK, S);
                int64_t *id = answered(&books, 1, tasks[i]);
                check(id && *id == 0);
                *id = 2;
                check(books_have_other(&books, of("bob"), true));
                check(!answered(&books, 1, tasks[i]));
                check(!answered(&books, 2, "{\"status\":\"cancelled\"}"));
                check(LIST_EMPTY(&books.owed));
        }
        books_owe(&books, of("alice"), 1, BOOK_MAKES_TASK, S);
        check(!answered(&books, 1, "{\"task\":{\"taskId\":\"t\",\"status\":\"failed\"}}"));
        check(LIST_EMPTY(&books.owed));
}

/* The calls of a principal are bounded, and one that is not kept still counts. */
static void test_limit(void)
{
        struct books books = {};
        int n = 0;

        books_owe(&books, of("bob"), 1, BOOK_CALL, 9 * S);
        for (int i = 2; i <= 10 * BOOK_OWED_MAX; i++)
                books_owe(&books, of("alice"), i, BOOK_CALL, (uint64_t)i * S);
        check(books_have_other(&books, of("bob"), true));
        check_eq_int(books_restart_at(&books), 2 * S + BOOK_RESTART_MS * INT64_C(1000));
        for (int i = 2; i <= 10 * BOOK_OWED_MAX; i++) {
                answered(&books, i, "{}");
                n += books_have_other(&books, of("bob"), false);
        }
        check_eq_int(n, 10 * BOOK_OWED_MAX - 1);
        check(books_have_other(&books, of("alice"), false));
        answered(&books, 1, "{}");
        check(!books_have_other(&books, of("alice"), false));
        books_clear(&books);
        check(!books_have_other(&books, of("bob"), true));
}

static void test_reasons(void)
{
        struct books books = {};

        books_owe(&books, of("alice"), 1, BOOK_CALL, 5 * S);
        books_owe(&books, of("alice"), 2, BOOK_CALL, 3 * S);
        check(books_have_other(&books, of("bob"), false));
        check_eq_int(books_restart_at(&books), 0);
        check(books_have_other(&books, of("bob"), true));
        check_eq_int(books_restart_at(&books), 63 * S);
        answered(&books, 2, "{}");
        check_eq_int(books_restart_at(&books), 65 * S);
        /* No message was refused because of the third one. */
        books_owe(&books, of("alice"), 3, BOOK_CALL, 9 * S);
        answered(&books, 1, "{}");
        check_eq_int(books_restart_at(&books), 0);
        books_clear(&books);
}

int main(void)
{
        run(test_other_principals);
        run(test_tasks);
        run(test_late_tasks);
        run(test_limit);
        run(test_reasons);
        return 0;
}
