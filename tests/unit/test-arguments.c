/* The tables of the internal executables' arguments. */
#include "base/arguments.h"

#include <errno.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "tests/unit/test.h"

struct taken {
        const char *text;
        bool flag;
        int number;
        int calls;
        const char *list[2];
        size_t n_list;
        int level, format;
};

static int take_call(void *to, const char *value)
{
        struct taken *taken = to;

        if (taken->calls == 2)
                return -E2BIG;
        taken->calls++;
        return value[0] == 'x' ? 0 : -EINVAL;
}

static const struct argument table[] = {
        {"--call", ARGUMENT_CALL, .take = take_call},
        {"--flag", ARGUMENT_FLAG, .offset = offsetof(struct taken, flag)},
        {"--level", ARGUMENT_LOG_LEVEL, .offset = offsetof(struct taken, level)},
        {"--list", ARGUMENT_LIST, ARGUMENT_LIST_IN(struct taken, list, n_list)},
        {"--log-format", ARGUMENT_LOG_FORMAT, .offset = offsetof(struct taken, format)},
        {"--number", ARGUMENT_NUMBER, .offset = offsetof(struct taken, number)},
        {"--text", ARGUMENT_TEXT, .offset = offsetof(struct taken, text)},
};

static int take(struct taken *to, const char *name, const char *value, struct error *err)
{
        char *argv[] = {(char *)name, (char *)value, NULL};

        *err = (struct error){};
        return argument_take(table, ARRAY_SIZE(table), argv, to, err);
}

static void test_each_kind(void)
{
        struct taken taken = {};
        struct error err;

        check_eq_int(take(&taken, "--text", "--flag", &err), 2);
        check_eq_str(taken.text, "--flag");
        check(!taken.flag);
        check_eq_int(take(&taken, "--flag", "next", &err), 1);
        check(taken.flag);
        check_eq_int(take(&taken, "--number", "2147483647", &err), 2);
        check_eq_int(taken.number, 2147483647);
        check_eq_int(take(&taken, "--call", "x", &err), 2);
        check_eq_int(taken.calls, 1);
}

static void test_list(void)
{
        struct taken taken = {};
        struct error err;

        check_eq_int(take(&taken, "--list", "a", &err), 2);
        check_eq_int(take(&taken, "--list", "", &err), 2);
        check_eq_int(take(&taken, "--list", "c", &err), -E2BIG);
        check_eq_str(err.text, "--list is given too often");
        check_eq_int((int)taken.n_list, 2);
        check_eq_str(taken.list[0], "a");
        check_eq_str(taken.list[1], "");
        check_eq_int(taken.level, 0);
}

static void test_log(void)
{
        struct taken taken = {.level = -1, .format = -1};
        struct error err;

        check_eq_int(take(&taken, "--level", "debug", &err), 2);
        check_eq_int(taken.level, LOG_LEVEL_DEBUG);
        check_eq_int(take(&taken, "--log-format", "json", &err), 2);
        check_eq_int(taken.format, LOG_FORMAT_JSON);
        check_eq_int(take(&taken, "--level", "loud", &err), -EINVAL);
        check_eq_int(take(&taken, "--log-format", "xml", &err), -EINVAL);
        check_eq_str(err.text, "--log-format: bad value 'xml'");
}

static void test_refused(void)
{
        static const char *const numbers[] = {"", "x", "1x", "-1", "2147483648"};
        struct taken taken = {.number = 7};
        struct error err;

        check_eq_int(take(&taken, "--texts", "a", &err), -EINVAL);
        check_eq_str(err.text, "unknown option '--texts'");
        check_eq_int(take(&taken, "--tex", "a", &err), -EINVAL);
        check_eq_int(take(&taken, "--text", NULL, &err), -EINVAL);
        check_eq_str(err.text, "--text needs a value");
        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
                check_eq_int(take(&taken, "--number", numbers[i], &err), -EINVAL);
        check_eq_int(taken.number, 7);
        check_eq_int(take(&taken, "--call", "y", &err), -EINVAL);
        check_eq_str(err.text, "--call: bad value 'y'");
        check_eq_int(take(&taken, "--call", "x", &err), 2);
        check_eq_int(take(&taken, "--call", "x", &err), -E2BIG);
        check_eq_str(err.text, "--call is given too often");
}

int main(void)
{
        run(test_each_kind);
        run(test_list);
        run(test_log);
        run(test_refused);
        return 0;
}
