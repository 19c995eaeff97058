/* The memory that many peers keep together. */
#include "rpc/memory-account.h"

#include "rpc/background.h"
#include "tests/unit/test.h"

enum { MIB = 1024 * 1024, N = 200 };

/* Takes as much as it can, in steps. Returns how much. */
static size_t grow(struct charge *charge, size_t step)
{
        while (charge_fits(charge, step))
                charge_set(charge, charge->bytes + step);
        return charge->bytes;
}

static void open_one(struct charge *charge, enum memory_account_pool pool)
{
        struct memory_account *account = memory_account_new(pool);

        *charge = (struct charge){};
        charge_open(charge, account);
        memory_account_unref(account);
}

/* However many take all that they can, the next one has something, and the sum has a bound. */
static void test_nobody_takes_all(void)
{
        static struct charge charges[N];
        size_t sum = 0;

        for (int i = 0; i < N; i++) {
                open_one(&charges[i], ACCOUNT_OF_SESSION);
                size_t n = grow(&charges[i], 4096);
                sum += n;
                check(n >= ACCOUNT_FREE);
                if (i == 0) {
                        check(n > 127 * MIB && n <= 128 * MIB);
                        open_one(&charges[1], ACCOUNT_OF_SESSION);
                        check(charge_fits(&charges[1], 64 * MIB));
                        charge_done(&charges[1]);
                }
                /* They take before those that come later: it is never less than it would be if they
                 * had come at once. */
                if (i < 3)
                        check(n > 4 * MIB);
        }
        check(sum <= ACCOUNTS_SESSIONS_MAX + (size_t)N * ACCOUNT_FREE);
        /* The others are another pool's. */
        struct charge other;
        open_one(&other, ACCOUNT_OF_CLIENT);
        check_eq_int(grow(&other, MIB), 64 * MIB);
        charge_done(&other);
        for (int i = 0; i < N; i++)
                charge_done(&charges[i]);
        open_one(&other, ACCOUNT_OF_SESSION);
        check(charge_fits(&other, 128 * MIB));
        check(!charge_fits(&other, 129 * MIB));
        charge_done(&other);
}

/* Those that come together get the same. */
static void test_at_once(void)
{
        static struct charge charges[10];
        size_t least = SIZE_MAX;

        for (int i = 0; i < 10; i++)
                open_one(&charges[i], ACCOUNT_OF_SESSION);
        for (bool any = true; any;) {
                any = false;
                for (int i = 0; i < 10; i++) {
                        if (!charge_fits(&charges[i], 65536))
                                continue;
                        charge_set(&charges[i], charges[i].bytes + 65536);
                        any = true;
                }
        }
        for (int i = 0; i < 10; i++) {
                least = charges[i].bytes < least ? charges[i].bytes : least;
                charge_done(&charges[i]);
        }
        check(least > 17 * MIB);
}

/* Memory that is kept longer than its session still counts. */
static void test_outlives(void)
{
        struct memory_account *account = memory_account_new(ACCOUNT_OF_SESSION);
        struct shared_text *text = shared_text_new(strdup("text"), 4);
        struct charge other;

        charge_open(&text->charge, account);
        charge_set(&text->charge, 100 * MIB);
        memory_account_unref(account);
        struct shared_text *again = shared_text_ref(text);
        shared_text_unref(text);
        open_one(&other, ACCOUNT_OF_SESSION);
        check(!charge_fits(&other, 100 * MIB));
        shared_text_unref(again);
        check(charge_fits(&other, 100 * MIB));
        charge_done(&other);
}

static void test_without_a_share(void)
{
        struct charge none = {};

        check(charge_fits(&none, SIZE_MAX));
        charge_set(&none, 100);
        charge_done(&none);
        memory_account_unref(NULL);
}

int main(void)
{
        run(test_nobody_takes_all);
        run(test_at_once);
        run(test_outlives);
        run(test_without_a_share);
        return 0;
}
