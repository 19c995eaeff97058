/* Errors: one line with its context, of fixed size, and safe to log when it came from a peer. */
#include "base/error.h"

#include "tests/unit/test.h"

static void test_set_and_context(void)
{
        struct error err = {};

        check(!error_is_set(&err) && !error_is_set(NULL));
        check_eq_int(error_set(&err, EINVAL, "bad %s", "name"), -EINVAL);
        check(error_is_set(&err));
        check_eq_str(err.text, "bad name");
        check_eq_int(error_context(&err, "start sandbox %d", 7), -EINVAL);
        check_eq_str(err.text, "start sandbox 7: bad name");
        check_eq_int(err.code, EINVAL);
        check_eq_int(error_errno(&err, ENOENT, "open %s", "x"), -ENOENT);
        check_eq_str(err.text, "open x: No such file or directory");
        error_errno(&err, 4000, "odd");
        check_eq_str(err.text, "odd: unknown error");
}

static void test_without_an_error(void)
{
        check_eq_int(error_set(NULL, EPERM, "x"), -EPERM);
        check_eq_int(error_errno(NULL, EPERM, "x"), -EPERM);
        check_eq_int(error_context(NULL, "x"), -EIO);
        check_eq_int(error_set(NULL, 0, "no code"), -EIO);
        check_eq_int(error_set(NULL, -5, "negative"), -EIO);
        error_sanitize(&(struct error){});
}

static void test_long_texts_are_cut(void)
{
        struct error err = {};
        char text[2000];

        memset(text, 'x', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        error_set(&err, EIO, "%s", text);
        check_eq_int(strlen(err.text), sizeof(err.text) - 1);
        error_context(&err, "%s", "before");
        check_eq_int(strlen(err.text), sizeof(err.text) - 1);
        check(strncmp(err.text, "before: xxx", 11) == 0);
        error_context(&err, "%s", text);
        check_eq_int(strlen(err.text), sizeof(err.text) - 1);
        error_errno(&err, ENOENT, "%s", text);
        check_eq_int(strlen(err.text), sizeof(err.text) - 1);
}

static void test_from_a_peer(void)
{
        struct error err = {.code = -3};

        memset(err.text, 'y', sizeof(err.text));
        err.text[3] = '\n';
        err.text[4] = 0x1b;
        error_sanitize(&err);
        check_eq_int(err.code, EIO);
        check_eq_int(strlen(err.text), sizeof(err.text) - 1);
        check(strncmp(err.text, "yyy??y", 6) == 0);
        err.code = 1 << 20;
        error_sanitize(&err);
        check_eq_int(err.code, EIO);
}

int main(void)
{
        run(test_set_and_context);
        run(test_without_an_error);
        run(test_long_texts_are_cut);
        run(test_from_a_peer);
        return 0;
}
