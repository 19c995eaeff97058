/* Memory for documents while they arrive: the pools, who waits, and who has to give back. */
#include "rpc/claim.h"

#include "tests/unit/fake-clock.h"
#include "tests/unit/test.h"

static struct event_base *base;

struct peer {
        struct claim claim;
        int granted, revoked;
};

static void on_granted(void *data)
{
        ((struct peer *)data)->granted++;
}

static void on_revoked(void *data)
{
        struct peer *peer = data;

        check(!claim_is_granted(&peer->claim));
        peer->revoked++;
}

static bool ask(struct peer *peer, enum claim_pool pool, size_t bytes)
{
        return claim_ask(&peer->claim, pool, bytes,
                         &(struct claim_owner){base, on_granted, on_revoked, peer});
}

static void drop_all(struct peer *peers, size_t n)
{
        for (size_t i = n; i-- > 0;)
                claim_drop(&peers[i].claim);
}

static void pass_ms(uint64_t ms)
{
        fake_clock_advance_ms(ms);
        for (int i = 0; i < 3; i++)
                event_base_loop(base, EVLOOP_NONBLOCK);
}

/* Each pool is full for itself. */
static void test_pools(void)
{
        static const size_t most[CLAIM_POOLS] = {CLAIM_PARTS_MAX, CLAIM_FRAMES_MAX,
                                                 CLAIM_LINES_MAX};
        struct peer holders[CLAIM_POOLS] = {}, waiting[CLAIM_POOLS] = {};

        for (int i = 0; i < CLAIM_POOLS; i++) {
                check(ask(&holders[i], (enum claim_pool)i, most[i]));
                check(!ask(&waiting[i], (enum claim_pool)i, 1));
        }
        for (int i = 0; i < CLAIM_POOLS; i++) {
                claim_drop(&holders[i].claim);
                check_eq_int(waiting[i].granted, 1);
                check(claim_is_granted(&waiting[i].claim));
        }
        drop_all(waiting, CLAIM_POOLS);
}

/* The smallest and the oldest take turns. */
static void test_order(void)
{
        struct peer holder = {}, large[3] = {}, small[3] = {};

        check(ask(&holder, CLAIM_FRAMES, CLAIM_FRAMES_MAX));
        for (int i = 0; i < 3; i++)
                check(!ask(&large[i], CLAIM_FRAMES, CLAIM_FRAMES_MAX));
        for (int i = 0; i < 3; i++)
                check(!ask(&small[i], CLAIM_FRAMES, CLAIM_FRAMES_MAX - 1));
        claim_drop(&holder.claim);
        check_eq_int(small[0].granted + large[0].granted, 1);
        for (int n = 2; n <= 6; n++) {
                for (int i = 0; i < 3; i++) {
                        if (claim_is_granted(&small[i].claim)) {
                                claim_drop(&small[i].claim);
                                break;
                        }
                        if (claim_is_granted(&large[i].claim)) {
                                claim_drop(&large[i].claim);
                                break;
                        }
                }
                int smalls = 0, larges = 0;
                for (int i = 0; i < 3; i++) {
                        smalls += small[i].granted;
                        larges += large[i].granted;
                }
                check_eq_int(smalls + larges, n);
                check(smalls - larges <= 1 && larges - smalls <= 1);
        }
        drop_all(small, 3);
        drop_all(large, 3);
}

/* What is not complete is revoked when others wait, and only then. */
static void test_revoked(void)
{
        struct peer stalls[2] = {}, other = {};

        check(ask(&stalls[0], CLAIM_LINES, CLAIM_LINES_MAX / 2));
        check(ask(&stalls[1], CLAIM_LINES, CLAIM_LINES_MAX / 2));
        pass_ms(60000);
        check_eq_int(stalls[0].revoked + stalls[1].revoked, 0);
        check(!ask(&other, CLAIM_LINES, CLAIM_LINES_MAX / 2));
        pass_ms(20);
        check_eq_int(stalls[0].revoked, 1);
        check_eq_int(stalls[1].revoked, 0);
        check_eq_int(other.granted, 1);
        drop_all(stalls, 2);
        claim_drop(&other.claim);
}

/* From the grant on each has its time, also while others wait. A complete one is left alone. */
static void test_time(void)
{
        struct peer first = {}, complete = {}, other = {};

        check(ask(&first, CLAIM_LINES, CLAIM_LINES_MAX / 2));
        check(ask(&complete, CLAIM_LINES, CLAIM_LINES_MAX / 2));
        claim_complete(&complete.claim);
        check(!ask(&other, CLAIM_LINES, CLAIM_LINES_MAX / 2));
        pass_ms(CLAIM_LINES_MS - 10);
        check_eq_int(first.revoked, 0);
        pass_ms(40);
        check_eq_int(first.revoked, 1);
        check_eq_int(other.granted, 1);
        check(!ask(&first, CLAIM_LINES, CLAIM_LINES_MAX / 2));
        pass_ms(10 * CLAIM_LINES_MS);
        check_eq_int(complete.revoked, 0);
        check_eq_int(other.revoked, 1);
        claim_drop(&first.claim);
        claim_drop(&complete.claim);
}

/* Two that stall again and again do not delay another one again. */
static void test_again(void)
{
        struct peer stalls[2] = {}, other = {};

        for (int i = 0; i < 2; i++)
                check(ask(&stalls[i], CLAIM_LINES, CLAIM_LINES_MAX / 2));
        check(!ask(&other, CLAIM_LINES, CLAIM_LINES_MAX / 2));
        pass_ms(CLAIM_LINES_MS + 20);
        check_eq_int(other.granted, 1);
        claim_complete(&other.claim);
        claim_drop(&other.claim);
        claim_drop(&stalls[1].claim);
        for (int i = 0; i < 2; i++)
                check(ask(&stalls[i], CLAIM_LINES, CLAIM_LINES_MAX / 2));
        check(!ask(&other, CLAIM_LINES, CLAIM_LINES_MAX / 2));
        /* One of them was revoked before. */
        pass_ms(20);
        check_eq_int(other.granted, 2);
        /* It waits behind all others, and has its time when it is alone with its like. */
        check(!ask(&stalls[0], CLAIM_LINES, CLAIM_LINES_MAX / 2));
        claim_drop(&stalls[1].claim);
        check_eq_int(stalls[0].granted, 1);
        claim_drop(&stalls[0].claim);
        claim_drop(&other.claim);
}

int main(void)
{
        base = event_base_new();
        check(base);
        fake_clock_stop(true);
        run(test_pools);
        run(test_order);
        run(test_revoked);
        run(test_time);
        run(test_again);
        event_base_free(base);
        return 0;
}
