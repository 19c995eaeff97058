/* Code of which it is certain what it does. */
#include "supervisor/session/cell/plain-code.h"

#include <string.h>

#include "base/cleanup.h"
#include "tests/unit/test.h"

static enum plain_code of(const char *code)
{
        return plain_code_of(code, strlen(code));
}

static void test_values_and_names(void)
{
        static const char *const values[] = {
                "", "1+1", " 2 * (3 - 4)\n", "1.5/3\n\n7//2", "(1 +\n 2)", "-1\t- +2", "()", "1/0"};
        static const char *const assigns[] = {"x=1", "x = 1\ny2_Z = (2+3)*4\n", "x =\n",
                                              "1\nx = 2\n3"};

        for (size_t i = 0; i < ARRAY_SIZE(values); i++)
                check_eq_int(of(values[i]), PLAIN_VALUE);
        for (size_t i = 0; i < ARRAY_SIZE(assigns); i++)
                check_eq_int(of(assigns[i]), PLAIN_ASSIGNS);
}

/* Names, calls, attributes, strings, what takes long, and what another parser could read in another way. */
static void test_all_else(void)
{
        static const char *const list[] = {"x",
                                           "_",
                                           "_ + 1",
                                           "x = y",
                                           "x += 1",
                                           "x == 1",
                                           "x = y = 1",
                                           "_x = 1",
                                           "__builtins__ = 1",
                                           "2**3",
                                           "x = 2**9",
                                           "1 << 3",
                                           "x[0] = 1",
                                           "x.y = 1",
                                           "x: int = 1",
                                           "f()",
                                           "1; f()",
                                           "1\nf()",
                                           "import os",
                                           "(x := 1)",
                                           "'a'",
                                           "1e9",
                                           "1_0",
                                           "0x1",
                                           "1j",
                                           "%time",
                                           "!ls",
                                           "1 # c",
                                           "1\\\n+1",
                                           "1\r+1",
                                           "1\f",
                                           "1 % 2",
                                           "1 @ 1",
                                           "1 < 2",
                                           "[1]",
                                           "{}",
                                           "\xef\xbc\x91",
                                           "\xc2\xa0"
                                           "1",
                                           "del(x)",
                                           "x, y = 1",
                                           "x =\n= 1"};
        char longest[512];

        for (size_t i = 0; i < ARRAY_SIZE(list); i++)
                check_eq_int(of(list[i]), PLAIN_NOT);
        check_eq_int(plain_code_of("1\0", 2), PLAIN_NOT);
        memset(longest, '1', sizeof(longest));
        check_eq_int(plain_code_of(longest, 256), PLAIN_VALUE);
        check_eq_int(plain_code_of(longest, 257), PLAIN_NOT);
}

int main(void)
{
        run(test_values_and_names);
        run(test_all_else);
        return 0;
}
