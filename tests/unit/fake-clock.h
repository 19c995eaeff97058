/*
 * A monotonic clock that the test moves, so that no test sleeps.
 *
 * A test program that links fake-clock.c (dep_fake_clock in meson.build) has its own
 * clock_gettime(), epoll_wait() and poll(), which take the place of libc's. base/clock.h and
 * libevent read CLOCK_MONOTONIC through them, so timestamps and timers agree. Until a function of
 * this header is called, time passes as usual. Processes that exec another program have the real
 * clock; a forked child keeps a copy of the fake one.
 *
 *  - The code under test talks to another process or thread: call fake_clock_advance_ms(), then run
 *    the loop. Timers that are due by then fire in its next turn.
 *
 *        begin_call(&call, 60000);
 *        fake_clock_advance_ms(60000);
 *        run_until(&call.done);
 *
 *    fake_clock_stop(true) stops the clock between these calls, so that no timer fires because the
 *    machine is slow. Waits for descriptors are real; use alarm() to end a test that would wait
 *    without end.
 *
 *  - All peers are in the test's own process and thread (socket pairs, fake peers): call
 *    fake_clock_skip_idle(true) first. From then on the clock stands still, and where epoll_wait()
 *    or poll() would wait, it jumps to the end of the wait instead. A test that runs the loop for an
 *    hour takes no time, and its outcome does not depend on the machine's load. A condition that
 *    never comes true makes the clock run through all timers: guard such a wait with a timer.
 *
 * Sleeps (nanosleep, usleep) and timeouts of other calls (recv with SO_RCVTIMEO, timerfd) are real.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

void fake_clock_advance_ms(uint64_t ms);

/* The later call counts; false: time passes again, from where the clock stands. */
void fake_clock_stop(bool on);
void fake_clock_skip_idle(bool on);
