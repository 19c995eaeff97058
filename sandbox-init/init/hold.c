/* Stops the processes of a session, and notices those that run nevertheless. */
#include "sandbox-init/init/hold.h"

#include "sandbox-init/init/init-clock.h"
#include "sandbox-init/init/rest.h"

#define MS INT64_C(1000000) /* nanoseconds */

enum {
        STOP_MS = 1, /* between two looks until all have stopped */
        STOPS_MAX =
                1000, /* looks at which one still ran: a thread that waits for a processor has not stopped yet */
        STUCK_MAX =
                100, /* those in uninterruptible system calls count as stopped from then on: a parent in vfork() waits there */
        LOOK_MS = 50,
        LOOK_PART = 200, /* looking takes one LOOK_PART-th of a processor at most */
};

static struct {
        enum { HOLD_OFF, HOLD_STOPS, HOLD_STANDS, HOLD_BROKEN } state;
        int32_t number;
        int looks;
        int64_t due; /* ns */
        struct rest_reading seen;
        struct timespec wait;
} hold;

static void look_in(int64_t ns)
{
        hold.due = init_clock_ns(CLOCK_MONOTONIC) + ns;
        hold.wait = (struct timespec){ns / (1000 * MS), ns % (1000 * MS)};
}

int32_t hold_number(void)
{
        return hold.state == HOLD_OFF ? 0 : hold.number;
}

const struct timespec *hold_wait(void)
{
        return hold.state == HOLD_OFF ? NULL : &hold.wait;
}

void hold_end(bool continues)
{
        if (hold.state != HOLD_OFF && continues)
                rest_continue();
        hold.state = HOLD_OFF;
}

static bool is_as_before(const struct rest_reading *now)
{
        return now->cpu == hold.seen.cpu && now->n == hold.seen.n && now->last == hold.seen.last;
}

/* They stay stopped as well as they can until the session ends. */
static enum hold_news note_ran(void)
{
        hold.state = HOLD_BROKEN;
        rest_stop_again();
        look_in(LOOK_MS * MS);
        return HOLD_RAN;
}

/* All have stopped if none can run, and two readings are the same: a thread other than the first one of its process is noticed by
 * its processor time only. */
static enum hold_news tick_stops(pid_t last)
{
        const struct rest_reading now = rest_read(last);
        bool is_same = is_as_before(&now), is_stuck_ok = ++hold.looks >= STUCK_MAX;

        hold.seen = now;
        if (is_same && rest_count_running(!is_stuck_ok) == 0) {
                hold.state = HOLD_STANDS;
                look_in(LOOK_MS * MS);
                return HOLD_STILL;
        }
        if (hold.looks > STOPS_MAX)
                return note_ran();
        rest_stop_again();
        look_in(STOP_MS * MS);
        return HOLD_NOTHING;
}

static enum hold_news check(pid_t last)
{
        int64_t began = init_clock_ns(CLOCK_MONOTONIC);
        const struct rest_reading now = rest_read(last);

        if (!is_as_before(&now) || rest_count_running(false) > 0)
                return note_ran();
        int64_t cost = init_clock_ns(CLOCK_MONOTONIC) - began;
        look_in(cost * LOOK_PART > LOOK_MS * MS ? cost * LOOK_PART : LOOK_MS * MS);
        return HOLD_STILL;
}

enum hold_news hold_begin(int32_t number, pid_t last)
{
        hold.number = number;
        if (hold.state == HOLD_STANDS)
                return check(last);
        if (hold.state != HOLD_OFF)
                return HOLD_NOTHING;
        rest_end(true);
        rest_stop();
        hold.state = HOLD_STOPS;
        hold.looks = 0;
        hold.seen = (struct rest_reading){};
        look_in(STOP_MS * MS);
        return HOLD_NOTHING;
}

enum hold_news hold_tick(pid_t last)
{
        if (hold.state == HOLD_OFF || init_clock_ns(CLOCK_MONOTONIC) < hold.due)
                return HOLD_NOTHING;
        if (hold.state == HOLD_STOPS)
                return tick_stops(last);
        if (hold.state == HOLD_BROKEN) {
                rest_stop_again();
                look_in(LOOK_MS * MS);
                return HOLD_NOTHING;
        }
        return check(last) == HOLD_RAN ? HOLD_RAN : HOLD_NOTHING;
}
