/* The clock; and the fake clock moves it together with libevent's timers. */
#include "base/clock.h"

#include <event2/event.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/fake-clock.h"
#include "tests/unit/test.h"

enum { HOUR_MS = 3600 * 1000 };

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        (void)fd;
        (void)what;
        ++*(int *)data;
}

/* The time of a clock that the fake one does not change. */
static uint64_t real_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC_RAW, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void test_time_passes(void)
{
        uint64_t before = clock_us();

        usleep(2000);
        check(clock_us() - before >= 2000);
        check_eq_int(clock_timeval_ms(61234).tv_sec, 61);
        check_eq_int(clock_timeval_ms(61234).tv_usec, 234000);
}

static void test_advance(void)
{
        const struct timeval in = clock_timeval_ms(HOUR_MS);
        struct event_base *base = event_base_new();
        uint64_t before = clock_ms();
        int fired = 0;

        event_base_once(base, -1, EV_TIMEOUT, on_timer, &fired, &in);
        fake_clock_advance_ms(HOUR_MS - 1000);
        check_eq_int(event_base_loop(base, EVLOOP_NONBLOCK), 0);
        check_eq_int(fired, 0);
        fake_clock_advance_ms(1000);
        check(clock_ms() - before >= HOUR_MS);
        check_eq_int(event_base_loop(base, EVLOOP_NONBLOCK), 1);
        check_eq_int(fired, 1);
        event_base_free(base);
}

static void test_stop(void)
{
        const struct timeval soon = clock_timeval_ms(1);
        struct event_base *base = event_base_new();
        int fired = 0;

        fake_clock_stop(true);
        uint64_t before = clock_us();
        event_base_once(base, -1, EV_TIMEOUT, on_timer, &fired, &soon);
        usleep(2000);
        check_eq_int(event_base_loop(base, EVLOOP_NONBLOCK), 0);
        check_eq_int(fired, 0);
        fake_clock_advance_ms(1);
        check_eq_int(clock_us() - before, 1000);
        event_base_loop(base, EVLOOP_NONBLOCK);
        check_eq_int(fired, 1);
        fake_clock_stop(false);
        usleep(2000);
        check(clock_us() - before >= 3000);
        event_base_free(base);
}

static void test_skip_idle(void)
{
        const struct timeval in = clock_timeval_ms(HOUR_MS), soon = clock_timeval_ms(30);
        struct event_base *base = event_base_new();
        uint64_t real = real_ms();
        int fired = 0, ticks = 0;

        fake_clock_skip_idle(true);
        uint64_t before = clock_us();
        usleep(2000);
        check_eq_int(clock_us() - before, 0);
        struct event *every = event_new(base, -1, EV_PERSIST, on_timer, &ticks);
        event_add(every, &soon);
        event_base_once(base, -1, EV_TIMEOUT, on_timer, &fired, &in);
        while (!fired)
                check(event_base_loop(base, EVLOOP_ONCE) >= 0);
        check_eq_int((clock_us() - before) / 1000000, HOUR_MS / 1000);
        check(ticks >= HOUR_MS / 31 && ticks <= HOUR_MS / 30);

        /* Events that are ready are handled first, and no time passes. */
        int fds[2];
        check_eq_int(pipe(fds), 0);
        struct pollfd polled = {.fd = fds[0], .events = POLLIN};
        before = clock_us();
        check_eq_int(poll(&polled, 1, HOUR_MS), 0);
        check_eq_int(clock_us() - before, HOUR_MS * 1000ULL);
        check_eq_int(write(fds[1], "x", 1), 1);
        check_eq_int(poll(&polled, 1, HOUR_MS), 1);
        check_eq_int(clock_us() - before, HOUR_MS * 1000ULL);

        fake_clock_skip_idle(false);
        usleep(2000);
        check(clock_us() - before > HOUR_MS * 1000ULL);
        check(real_ms() - real < 60 * 1000);
        close(fds[0]);
        close(fds[1]);
        event_free(every);
        event_base_free(base);
}

int main(void)
{
        run(test_time_passes);
        run(test_advance);
        run(test_stop);
        run(test_skip_idle);
        return 0;
}
