/* The functions that cloister-module has instead of libc's, compared with libc's. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "sandbox-init/freestanding/format.h"
#include "tests/unit/test.h"

__attribute__((format(printf, 3, 4))) static int ours(char *text, size_t size, const char *format,
                                                      ...)
{
        va_list args;

        va_start(args, format);
        int r = format_text(text, size, format, args);
        va_end(args);
        return r;
}

/* Both give the same text, whole and truncated. */
#define SAME(...)                                                                                  \
        do {                                                                                       \
                char mine[128], theirs[128];                                                       \
                int whole = snprintf(theirs, sizeof(theirs), __VA_ARGS__);                         \
                check_eq_int(ours(mine, sizeof(mine), __VA_ARGS__), whole);                        \
                check_eq_str(mine, theirs);                                                        \
                for (size_t size = 0; size < 12; size++) {                                         \
                        memset(mine, '#', sizeof(mine));                                           \
                        memset(theirs, '#', sizeof(theirs));                                       \
                        (void)!snprintf(theirs, size, __VA_ARGS__);                                \
                        check_eq_int(ours(mine, size, __VA_ARGS__), whole);                        \
                        check(memcmp(mine, theirs, sizeof(mine)) == 0);                            \
                }                                                                                  \
        } while (0)

static void test_numbers(void)
{
        static const int64_t numbers[] = {
                0, 1, -1, 9, 10, -10, 255, 4096, INT_MAX, INT_MIN, INT64_MAX, INT64_MIN,
        };

        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
                int64_t n = numbers[i];
                SAME("%d|%i|%u", (int)n, (int)n, (unsigned)n);
                SAME("%" PRId64 "|%" PRIu64, n, (uint64_t)n);
                SAME("%llu|%lld|%lx", (unsigned long long)n, (long long)n, (unsigned long)n);
                SAME("%zu|%zd|%jd", (size_t)n, (ssize_t)n, (intmax_t)n);
                SAME("%x|%04x|%02x|%o", (unsigned)n, (unsigned)n, (unsigned)n & 0xff, (unsigned)n);
                SAME("%5d|%-5d|%05d|%.3d", (int)n, (int)n, (int)n, (int)n);
                SAME("%hhd|%hd|%hhu|%hu", (signed char)n, (short)n, (unsigned char)n,
                     (unsigned short)n);
                SAME("%*d|%.*d", 7, (int)n, 4, (int)n);
        }
        SAME("%.0d|%.0d", 0, 1);
        SAME("%p", (void *)test_numbers);
}

static void test_strings(void)
{
        SAME("no conversion");
        SAME("%s: %s", "create", "No such file or directory");
        SAME("%8s|%-8s|%.3s|%.*s|%*s", "abc", "abc", "abcdef", 2, "abcdef", 6, "abc");
        SAME("%c%c|%%|%3c", 'a', 'b', 'c');
        SAME("%s", "");
}

static void test_unknown(void)
{
        char text[32];

        check_eq_int(ours(text, sizeof(text), "%f", 1.0), -1);
        check(strlen(text) < sizeof(text));
}

int main(void)
{
        run(test_numbers);
        run(test_strings);
        run(test_unknown);
        return 0;
}
