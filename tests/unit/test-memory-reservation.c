/* Memory for documents while they arrive: the pools, who waits, and who has to give back. */
#include "rpc/memory-reservation.h"

#include "tests/unit/fake-clock.h"
#include "tests/unit/test.h"

static struct event_base *base;

struct peer {
        struct memory_reservation reservation;
        int granted, revoked;
};

static void on_granted(void *data)
{
        ((struct peer *)data)->granted++;
}

static void on_revoked(void *data)
{
        struct peer *peer = data;

        check(!memory_reservation_is_granted(&peer->reservation));
        peer->revoked++;
}

static bool ask(struct peer *peer, enum memory_reservation_pool pool, size_t bytes)
{
        return memory_reservation_ask(
                &peer->reservation, pool, bytes,
                &(struct memory_reservation_owner){base, on_granted, on_revoked, peer});
}

static void drop_all(struct peer *peers, size_t n)
{
        for (size_t i = n; i-- > 0;)
                memory_reservation_drop(&peers[i].reservation);
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
        static const size_t most[RESERVATION_POOLS] = {
                RESERVATION_PARTS_MAX, RESERVATION_FRAMES_MAX, RESERVATION_LINES_MAX};
        struct peer holders[RESERVATION_POOLS] = {}, waiting[RESERVATION_POOLS] = {};

        for (int i = 0; i < RESERVATION_POOLS; i++) {
                check(ask(&holders[i], (enum memory_reservation_pool)i, most[i]));
                check(!ask(&waiting[i], (enum memory_reservation_pool)i, 1));
        }
        for (int i = 0; i < RESERVATION_POOLS; i++) {
                memory_reservation_drop(&holders[i].reservation);
                check_eq_int(waiting[i].granted, 1);
                check(memory_reservation_is_granted(&waiting[i].reservation));
        }
        drop_all(waiting, RESERVATION_POOLS);
}

/* The smallest and the oldest take turns. */
static void test_order(void)
{
        struct peer holder = {}, large[3] = {}, small[3] = {};

        check(ask(&holder, RESERVATION_FRAMES, RESERVATION_FRAMES_MAX));
        for (int i = 0; i < 3; i++)
                check(!ask(&large[i], RESERVATION_FRAMES, RESERVATION_FRAMES_MAX));
        for (int i = 0; i < 3; i++)
                check(!ask(&small[i], RESERVATION_FRAMES, RESERVATION_FRAMES_MAX - 1));
        memory_reservation_drop(&holder.reservation);
        check_eq_int(small[0].granted + large[0].granted, 1);
        for (int n = 2; n <= 6; n++) {
                for (int i = 0; i < 3; i++) {
                        if (memory_reservation_is_granted(&small[i].reservation)) {
                                memory_reservation_drop(&small[i].reservation);
                                break;
                        }
                        if (memory_reservation_is_granted(&large[i].reservation)) {
                                memory_reservation_drop(&large[i].reservation);
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

/* An incomplete reservation is revoked when others wait, and only then. */
static void test_revoked(void)
{
        struct peer stalls[2] = {}, other = {};

        check(ask(&stalls[0], RESERVATION_LINES, RESERVATION_LINES_MAX / 2));
        check(ask(&stalls[1], RESERVATION_LINES, RESERVATION_LINES_MAX / 2));
        pass_ms(60000);
        check_eq_int(stalls[0].revoked + stalls[1].revoked, 0);
        check(!ask(&other, RESERVATION_LINES, RESERVATION_LINES_MAX / 2));
        pass_ms(20);
        check_eq_int(stalls[0].revoked, 1);
        check_eq_int(stalls[1].revoked, 0);
        check_eq_int(other.granted, 1);
        drop_all(stalls, 2);
        memory_reservation_drop(&other.reservation);
}

/* From the grant on each has its time, also while others wait. A complete one is left alone. */
static void test_time(void)
{
        struct peer first = {}, complete = {}, other = {};

        check(ask(&first, RESERVATION_LINES, RESERVATION_LINES_MAX / 2));
        check(ask(&complete, RESERVATION_LINES, RESERVATION_LINES_MAX / 2));
        memory_reservation_complete(&complete.reservation);
        check(!ask(&other, RESERVATION_LINES, RESERVATION_LINES_MAX / 2));
        pass_ms(RESERVATION_LINES_MS - 10);
        check_eq_int(first.revoked, 0);
        pass_ms(40);
        check_eq_int(first.revoked, 1);
        check_eq_int(other.granted, 1);
        check(!ask(&first, RESERVATION_LINES, RESERVATION_LINES_MAX / 2));
        pass_ms(10 * RESERVATION_LINES_MS);
        check_eq_int(complete.revoked, 0);
        check_eq_int(other.revoked, 1);
        memory_reservation_drop(&first.reservation);
        memory_reservation_drop(&complete.reservation);
}

/* Two that stall again and again do not delay another one again. */
static void test_again(void)
{
        struct peer stalls[2] = {}, other = {};

        for (int i = 0; i < 2; i++)
                check(ask(&stalls[i], RESERVATION_LINES, RESERVATION_LINES_MAX / 2));
        check(!ask(&other, RESERVATION_LINES, RESERVATION_LINES_MAX / 2));
        pass_ms(RESERVATION_LINES_MS + 20);
        check_eq_int(other.granted, 1);
        memory_reservation_complete(&other.reservation);
        memory_reservation_drop(&other.reservation);
        memory_reservation_drop(&stalls[1].reservation);
        for (int i = 0; i < 2; i++)
                check(ask(&stalls[i], RESERVATION_LINES, RESERVATION_LINES_MAX / 2));
        check(!ask(&other, RESERVATION_LINES, RESERVATION_LINES_MAX / 2));
        /* One of them was revoked before. */
        pass_ms(20);
        check_eq_int(other.granted, 2);
        /* It waits behind all others, and has its time when it is alone with its like. */
        check(!ask(&stalls[0], RESERVATION_LINES, RESERVATION_LINES_MAX / 2));
        memory_reservation_drop(&stalls[1].reservation);
        check_eq_int(stalls[0].granted, 1);
        memory_reservation_drop(&stalls[0].reservation);
        memory_reservation_drop(&other.reservation);
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
