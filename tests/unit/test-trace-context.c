/* W3C Trace Context: what is passed on, and what counts as absent. */
#include "rpc/trace-context.h"

#include <stdlib.h>

#include "tests/unit/test.h"

#define ID     "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00-" ID "-00f067aa0ba902b7-01"

static struct trace_context context;

static bool read_both(const char *parent, const char *state)
{
        return trace_context_read(&context, parent, strlen(parent), state,
                                  state ? strlen(state) : 0);
}

static void test_parent(void)
{
        check(read_both(PARENT, NULL));
        check_eq_str(context.id, ID);
        check_eq_int(context.flags, 1);
        check(read_both("cc-" ID "-00f067aa0ba902b7-fe-more", NULL));
        check_eq_int(context.flags, 2);
        check(!trace_context_read(&context, NULL, 0, "a=1", 3));
        check(!*context.id && !*context.state);
        check(!read_both(PARENT "-", NULL));
        check(!read_both("ff" PARENT, NULL));
        check(!read_both("00-00000000000000000000000000000000-00f067aa0ba902b7-01", NULL));
        check(!read_both("00-" ID "-0000000000000000-01", NULL));
        check(!read_both("00-" ID "-00F067aa0ba902b7-01", NULL));
}

/* The first members that fit; none if one is not valid. */
static void test_state(void)
{
        char state[4096] = "";

        check(read_both(PARENT, " rojo=1 ,, congo=a b~\t"));
        check_eq_str(context.state, "rojo=1,congo=a b~");
        static const char *const bad[] = {"A=1",   "a",           "a=",     "=1",
                                          "a=b=c", "a=1\r\nX: y", "a=\x7f", "a=é"};
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                check(read_both(PARENT, bad[i]));
                check_eq_str(context.state, "");
        }
        for (int i = 0; i < 32; i++)
                snprintf(state + strlen(state), sizeof(state) - strlen(state), "k%d=%0100d,", i, i);
        check(read_both(PARENT, state));
        check(strlen(context.state) > 300 && strlen(context.state) <= TRACE_STATE_MAX);
        check(strncmp(context.state, "k0=", 3) == 0 && strstr(context.state, ",k1="));
        strcat(state, "more=1");
        check(read_both(PARENT, state));
        check_eq_str(context.state, "");
}

/* A MiB is as good as nothing, and is not read to its end. */
static void test_large(void)
{
        size_t n = 1024 * 1024;
        char *text = malloc(n + 1);

        check(text);
        memset(text, 'a', n);
        text[n] = '\0';
        check(!read_both(text, text));
        check(read_both(PARENT, text));
        check_eq_str(context.state, "");
        free(text);
}

static void test_child(void)
{
        char first[TRACE_PARENT_LENGTH + 1], second[TRACE_PARENT_LENGTH + 1];

        check(read_both("cc-" ID "-00f067aa0ba902b7-05", NULL));
        trace_context_child(&context, first);
        trace_context_child(&context, second);
        check(strcmp(first, second) != 0 && !strstr(first, "00f067aa0ba902b7"));
        check(strncmp(first, "00-" ID "-", 36) == 0);
        check_eq_str(first + 52, "-01");
        check(read_both(first, NULL));
}

int main(void)
{
        run(test_parent);
        run(test_state);
        run(test_large);
        run(test_child);
        return 0;
}
