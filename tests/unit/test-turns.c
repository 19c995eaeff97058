/* turns.h: the order in which sandboxes are made for several principals. */
#include "supervisor/monitor/turns.h"

#include "tests/unit/test.h"

enum { LIGHT = 1, HEAVY = 2, OTHER = HEAVY + TURNS_PRINCIPALS };

static struct turns turns;

static void test_first_come(void)
{
        struct turns_request list[] = {{1, 0}, {2, 0}, {3, 0}};
        size_t n = 3;

        for (uint32_t serial = 1; serial <= 3; serial++)
                check_eq_int(turns_take(&turns, list, &n, serial).serial, serial);
        check_eq_int(n, 0);
}

/* A principal with many requests, and one that comes later with one. */
static void test_few_before_many(void)
{
        struct turns_request list[] = {{10, HEAVY}, {11, HEAVY}, {12, HEAVY}, {20, LIGHT}};
        size_t n = 4;

        check_eq_int(turns_take(&turns, list, &n, 0).serial, 10);
        check_eq_int(turns_take(&turns, list, &n, 1).serial, 20);
        check_eq_int(turns_take(&turns, list, &n, 2).serial, 11);
        check_eq_int(turns_take(&turns, list, &n, 3).serial, 12);
        check_eq_int(n, 0);
}

static struct turns_request take_of_both(uint64_t now)
{
        struct turns_request list[] = {{1, HEAVY}, {2, LIGHT}};
        size_t n = 2;

        return turns_take(&turns, list, &n, now);
}

static void make_for(uint32_t principal, unsigned int times, uint64_t now)
{
        for (unsigned int i = 0; i < times; i++) {
                struct turns_request list[] = {{1, principal}};
                size_t n = 1;
                (void)turns_take(&turns, list, &n, now);
        }
}

/* Sandboxes that were made long ago count less, and in the end nothing: then the first request is taken. */
static void test_decay(void)
{
        make_for(HEAVY, 8, 0);
        make_for(LIGHT, 3, 0);
        check_eq_int(take_of_both(0).serial, 2);             /* 8 and 4 */
        make_for(LIGHT, 1, TURNS_HALF_MS);                   /* 4 and 3 */
        check_eq_int(take_of_both(TURNS_HALF_MS).serial, 2); /* 4 and 4 */
        check_eq_int(take_of_both(TURNS_HALF_MS).serial, 1);
        make_for(HEAVY, 100, TURNS_HALF_MS);
        check_eq_int(take_of_both(TURNS_HALF_MS + 1).serial, 2);
        check_eq_int(take_of_both(TURNS_HALF_MS * UINT64_C(100)).serial, 1);
        /* Between two halves. */
        turns = (struct turns){};
        make_for(HEAVY, 4, 0);
        make_for(LIGHT, 3, TURNS_HALF_MS / 2);
        check_eq_int(take_of_both(TURNS_HALF_MS / 2).serial, 1); /* 3 and 3 */
}

/* Neither a heavy principal nor the number of requests makes a count begin again, or another one's count its own. */
static void test_bounds(void)
{
        make_for(HEAVY, 3 * 1024 * 1024, 0);
        check_eq_int(take_of_both(0).serial, 2);
        check_eq_int(take_of_both(20 * TURNS_HALF_MS).serial, 2);
        make_for(OTHER, 1, 0);
        check_eq_int(take_of_both(0).serial, 1);
}

int main(void)
{
        static void (*const tests[])(void) = {test_first_come, test_few_before_many, test_decay,
                                              test_bounds};

        for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
                turns = (struct turns){};
                tests[i]();
        }
        return 0;
}
