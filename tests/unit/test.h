/*
 * Helpers of unit tests: checks that print where they failed, and one line for each test.
 *
 *     static void test_append(void)
 *     {
 *             check_eq_int(buffer_append(&b, "x", 1), 0);
 *     }
 *
 *     int main(void)
 *     {
 *             run(test_append);
 *             return 0;
 *     }
 *
 * A failed check aborts the program, because later checks depend on earlier ones.
 */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define test_fail_(...)                                                                            \
        do {                                                                                       \
                fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, __func__);                      \
                fprintf(stderr, __VA_ARGS__);                                                      \
                fputc('\n', stderr);                                                               \
                abort();                                                                           \
        } while (0)

#define check(expr)                                                                                \
        do {                                                                                       \
                if (!(expr))                                                                       \
                        test_fail_("not so: %s", #expr);                                           \
        } while (0)

/* Any integers; compared as signed 64 bits. */
#define check_eq_int(a, b)                                                                         \
        do {                                                                                       \
                long long a_ = (long long)(a), b_ = (long long)(b);                                \
                if (a_ != b_)                                                                      \
                        test_fail_("%s is %lld, not %s = %lld", #a, a_, #b, b_);                   \
        } while (0)

/* Strings; NULL equals only NULL. */
#define check_eq_str(a, b)                                                                         \
        do {                                                                                       \
                const char *a_ = (a), *b_ = (b);                                                   \
                if (a_ != b_ && (!a_ || !b_ || strcmp(a_, b_) != 0))                               \
                        test_fail_("%s is \"%s\", not \"%s\"", #a, a_ ? a_ : "(null)",             \
                                   b_ ? b_ : "(null)");                                            \
        } while (0)

/* Compares n bytes at a with a string. */
#define check_eq_bytes(a, n, b)                                                                    \
        do {                                                                                       \
                const char *a_ = (a), *b_ = (b);                                                   \
                size_t n_ = (n);                                                                   \
                if (n_ != strlen(b_) || (n_ > 0 && memcmp(a_, b_, n_) != 0))                       \
                        test_fail_("%s is \"%.*s\", not \"%s\"", #a, (int)n_, a_, b_);             \
        } while (0)

/* The text contains the part. */
#define check_has(text, part)                                                                      \
        do {                                                                                       \
                const char *text_ = (text), *part_ = (part);                                       \
                if (!text_ || !strstr(text_, part_))                                               \
                        test_fail_("%s is \"%s\", without \"%s\"", #text,                          \
                                   text_ ? text_ : "(null)", part_);                               \
        } while (0)

/* A call that takes a struct error named err in scope: shows its text when the result is negative.
 */
#define check_ok(expr)                                                                             \
        do {                                                                                       \
                long long r_ = (long long)(expr);                                                  \
                if (r_ < 0)                                                                        \
                        test_fail_("%s gave %lld: %s", #expr, r_, err.text);                       \
        } while (0)

#define run(fn)                                                                                    \
        do {                                                                                       \
                fn();                                                                              \
                printf("ok %s\n", #fn);                                                            \
                fflush(stdout);                                                                    \
        } while (0)

/* Exit status of a test that cannot run here: meson counts it as skipped. Print the reason first. */
enum { TEST_SKIP = 77 };
