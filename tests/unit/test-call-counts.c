#include "supervisor/session/machine/call-counts.h"
#include "tests/unit/test.h"

enum { MINUTE = 60 * 1000 * 1000 };

static void test_cells_and_all(void)
{
        struct call_counts counts = {}, copy = {};

        check_eq_int(call_counts_in_all(&counts, 7), 0);
        call_counts_add(&counts, 7, 1, 0); /* no place: not counted */
        check_eq_int(call_counts_reserve(&counts, 7), 0);
        check_eq_int(call_counts_reserve(&counts, 8), 0);
        check_eq_int(call_counts_reserve(&counts, 7), 0);
        check_eq_int(counts.n, 2);
        call_counts_add(&counts, 7, 1, 0);
        call_counts_add(&counts, 7, 1, 0);
        check_eq_int(call_counts_in_cell(&counts, 7, 1), 2);
        call_counts_add(&counts, 7, 2, 0);
        check_eq_int(call_counts_in_cell(&counts, 7, 1), 0);
        check_eq_int(call_counts_in_cell(&counts, 7, 2), 1);
        check_eq_int(call_counts_in_all(&counts, 7), 3);
        check_eq_int(call_counts_in_all(&counts, 8), 0);
        check_eq_int(call_counts_copy(&copy, &counts), 0);
        call_counts_add(&counts, 7, 2, 0);
        check_eq_int(call_counts_in_all(&copy, 7), 3);
        call_counts_done(&copy);
        call_counts_done(&counts);
}

static void test_the_hour(void)
{
        struct call_counts counts = {};
        uint64_t start = (uint64_t)MINUTE * 1000;

        check_eq_int(call_counts_reserve(&counts, 7), 0);
        for (uint64_t i = 0; i < 60; i++)
                call_counts_add(&counts, 7, 0, start + i * MINUTE);
        check_eq_int(call_counts_in_hour(&counts, 7, start + 59ull * MINUTE), 60);
        /* The first one counts until more than an hour has passed, and never less. */
        check_eq_int(call_counts_in_hour(&counts, 7, start + 60ull * MINUTE), 60);
        check_eq_int(call_counts_in_hour(&counts, 7, start + 61ull * MINUTE), 59);
        check_eq_int(call_counts_in_hour(&counts, 7, start + 120ull * MINUTE), 0);
        call_counts_add(&counts, 7, 0, start + 500ull * MINUTE);
        check_eq_int(call_counts_in_hour(&counts, 7, start + 500ull * MINUTE), 1);
        check_eq_int(call_counts_in_hour(&counts, 7, start + 5000ull * MINUTE), 0);
        call_counts_done(&counts);
}

static void test_the_bound(void)
{
        struct call_counts counts = {};

        for (uint64_t key = 1; key <= CALL_COUNTS_MAX; key++)
                check_eq_int(call_counts_reserve(&counts, key), 0);
        check_eq_int(call_counts_reserve(&counts, CALL_COUNTS_MAX + 1), -E2BIG);
        check_eq_int(call_counts_reserve(&counts, 1), 0);
        call_counts_done(&counts);
}

int main(void)
{
        run(test_cells_and_all);
        run(test_the_hour);
        run(test_the_bound);
        return 0;
}
