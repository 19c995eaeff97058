/* PID 1 of a sandbox: every request and every end of a process in each of its states (docs/cells.md). */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/init-world.h"
#include "tests/unit/test.h"

static pid_t keep(struct init_world *w, enum order kind, enum init_verb verb)
{
        pid_t pid = order(w, kind);

        request(w, verb, pid);
        expect(w, INIT_KEPT, pid);
        return pid;
}

static void end_copy(struct init_world *w, pid_t pid)
{
        check_eq_int(kill(outside(w, pid), SIGKILL), 0);
}

static bool was_killed(int32_t status)
{
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static void test_interrupts(void)
{
        struct init_world w;

        init_world_open(&w);
        request(&w, INIT_INTERRUPT, 0);
        expect_none(&w);
        check_eq_int(order(&w, SIGINTS), 1);
        check_eq_int(order(&w, REMINDERS), 0);
        request(&w, INIT_INTERRUPT, 1);
        expect_none(&w);
        check_eq_int(order(&w, SIGINTS), 1);
        check_eq_int(order(&w, REMINDERS), 1);
        init_world_close(&w);
}

/* A pid that comes from the worker may be any number. */
static void test_forged_pids(void)
{
        struct init_world w;

        init_world_open(&w);
        pid_t child = order(&w, CHILD), stopped = order(&w, STOPPED_CHILD),
              orphan = order(&w, ORPHAN);
        const pid_t forged[] = {0,       1,      WORKER,  -1,        -WORKER,   child,
                                stopped, orphan, FOREVER, INT32_MAX, INT32_MIN, -stopped};
        for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
                request(&w, INIT_KEEP, forged[i]);
                expect(&w, INIT_REFUSED, forged[i]);
                request(&w, INIT_KEEP_ASIDE, forged[i]);
                expect(&w, INIT_REFUSED, forged[i]);
                request(&w, INIT_DROP, forged[i]);
                if (forged[i] != 0)
                        request(&w, INIT_RESTORE, forged[i]);
                expect_none(&w);
        }
        check(lives(&w, child) && lives(&w, stopped) && lives(&w, orphan));
        check_eq_int(order(&w, WHO), WORKER);

        /* The control: a copy. It is taken once, and instead of no other process. */
        pid_t copy = order(&w, COPY), next = order(&w, COPY);
        check(is_stopped(&w, copy));
        request_keep(&w, INIT_KEEP, copy, child, orphan);
        expect(&w, INIT_KEPT, copy);
        check(!is_stopped(&w, copy));
        check_eq_int(kill(outside(&w, copy), SIGSTOP), 0); /* code in the sandbox can do that */
        while (!is_stopped(&w, copy))
                usleep(1000);
        request(&w, INIT_KEEP, copy);
        expect(&w, INIT_REFUSED, copy);
        request_keep(&w, INIT_KEEP, next, WORKER, copy);
        expect(&w, INIT_KEPT, next);
        check(ends(&w, copy));
        expect_none(&w); /* a copy that was replaced is not reported */
        check(lives(&w, child) && lives(&w, orphan) && lives(&w, next));
        check_eq_int(order(&w, WHO), WORKER);
        request(&w, INIT_DROP, next);
        check(ends(&w, next));
        pid_t unkept = order(&w, COPY);
        request(&w, INIT_DROP, unkept);
        check(ends(&w, unkept));
        expect_none(&w);
        init_world_close(&w);
}

static void test_no_requests(void)
{
        struct init_world w;
        const struct init_request request_ = {.verb = INIT_RESTORE};

        init_world_open(&w);
        const uint32_t verbs[] = {0, INIT_VERB_MAX, 1000, UINT32_MAX};
        for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
                request(&w, (enum init_verb)verbs[i], WORKER);
        request(&w, INIT_WAKE, 0);
        request(&w, INIT_WAKE, 1);
        expect_none(&w);
        /* A cut request is ignored; the pipe delivers it alone, because it holds no other bytes. */
        check_eq_int(write(w.control, &request_, sizeof(request_) - 1), sizeof(request_) - 1);
        while (usleep(1000) == 0 && is_stopped(&w, WORKER))
                ;
        usleep(100000);
        expect_none(&w);
        check_eq_int(order(&w, WHO), WORKER);
        init_world_close(&w);
}

/* The worker that waits for orders uses nothing: it is not stopped. HANG computes. */
static void test_rest(void)
{
        struct init_world w;

        init_world_open(&w);
        pid_t child = order(&w, CHILD), stopped = order(&w, STOPPED_CHILD);
        request(&w, INIT_REST, 1000);
        usleep(500000);
        expect_none(&w);
        check(!is_stopped(&w, child) && is_stopped(&w, stopped));
        check_eq_int(order(&w, WHO), WORKER);
        request(&w, INIT_REST, 0);

        /* All are stopped for good when their time is over, and a process that code has stopped stays so. */
        pid_t spinner = order(&w, SPINNER);
        request(&w, INIT_REST, 50);
        check_eq_int(expect(&w, INIT_STOPPED, 0), 3);
        for (int i = 0; i < 1000 && !(is_stopped(&w, WORKER) && is_stopped(&w, spinner)); i++)
                usleep(1000);
        check(is_stopped(&w, WORKER) && is_stopped(&w, spinner) && is_stopped(&w, child));
        request(&w, INIT_REST, 0);
        check_eq_int(order(&w, WHO), WORKER);
        for (int i = 0; i < 1000 && (is_stopped(&w, child) || is_stopped(&w, spinner)); i++)
                usleep(1000);
        check(!is_stopped(&w, child) && !is_stopped(&w, spinner) && is_stopped(&w, stopped));

        /* Those that the worker has started since then end, and no copy. */
        struct timespec now;
        pid_t copy = keep(&w, COPY, INIT_KEEP);
        usleep(50000);
        clock_gettime(CLOCK_BOOTTIME, &now);
        usleep(50000);
        pid_t young = order(&w, CHILD), orphan = order(&w, ORPHAN), unnamed = order(&w, COPY);
        request(&w, INIT_SWEEP, (int32_t)(now.tv_sec * 100 + now.tv_nsec / 10000000));
        expect(&w, INIT_SWEPT, 0);
        check(!lives(&w, young) && !lives(&w, orphan) && !lives(&w, unnamed));
        check_eq_int(order(&w, WHO), WORKER);
        check(lives(&w, child) && lives(&w, spinner) && lives(&w, copy));

        /* There is no second sweep: what starts after the answer stays. */
        young = order(&w, CHILD);
        usleep(600000);
        check(lives(&w, young));
        init_world_close(&w);
}

static void wait_until_stopped(struct init_world *w, pid_t pid, bool stopped)
{
        for (int i = 0; i < 1000 && is_stopped(w, pid) != stopped; i++)
                usleep(1000);
        check(is_stopped(w, pid) == stopped);
}

static void test_hold(void)
{
        struct init_world w;

        init_world_open(&w);
        pid_t spinner = order(&w, SPINNER), stopped = order(&w, STOPPED_CHILD),
              copy = keep(&w, COPY, INIT_KEEP);
        request(&w, INIT_HOLD, 5);
        check_eq_int(expect(&w, INIT_HELD, 0), 5);
        check(is_stopped(&w, WORKER) && is_stopped(&w, spinner) && is_stopped(&w, copy));
        usleep(300000);
        request(&w, INIT_HOLD, 6);
        check_eq_int(expect(&w, INIT_HELD, 0), 6);
        request(&w, INIT_HOLD, 0);
        check_eq_int(order(&w, WHO), WORKER);
        wait_until_stopped(&w, spinner, false);
        wait_until_stopped(&w, copy, false);
        check(is_stopped(&w, stopped));

        /* A process that runs for a moment is noticed, and one that ends. */
        request(&w, INIT_HOLD, 7);
        check_eq_int(expect(&w, INIT_HELD, 0), 7);
        kill(outside(&w, stopped), SIGKILL);
        check_eq_int(expect(&w, INIT_RAN, 0), 0);
        request(&w, INIT_HOLD, 8);
        request(&w, INIT_HOLD, 0);
        expect_none(&w);

        /* The worker's copy takes its place although all are stopped. */
        request(&w, INIT_HOLD, 9);
        check_eq_int(expect(&w, INIT_HELD, 0), 9);
        kill(outside(&w, WORKER), SIGKILL);
        expect(&w, INIT_CLEARED, copy);
        request(&w, INIT_WAKE, 0);
        check_eq_int(awaken(&w), copy);
        expect_none(&w);
        init_world_close(&w);
}

/* Timers that continue a process. */
static void test_hold_of_timers(void)
{
        struct init_world w;

        init_world_open(&w);
        order(&w, CONTINUER);
        usleep(100000); /* its timer exists */
        request(&w, INIT_HOLD, 1);
        check_eq_int(expect(&w, INIT_HELD, 0), 1);
        check_eq_int(expect(&w, INIT_RAN, 0), 0);
        request(&w, INIT_HOLD, 2);
        request(&w, INIT_HOLD, 0);
        check_eq_int(order(&w, WHO), WORKER);
        expect_none(&w);
        pid_t continuer = order(&w, CONTINUERS);
        usleep(100000);
        check(lives(&w, continuer));
        /* All may stand still between two of its timers: the next look notices the second one. */
        request(&w, INIT_HOLD, 3);
        expect_perhaps_after(&w, INIT_HELD, INIT_RAN);
        init_world_close(&w);
}

static int score(const struct init_world *w, pid_t pid)
{
        char path[64];
        int value = -1;

        snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)outside(w, pid));
        FILE *f = fopen(path, "re");
        check(f && fscanf(f, "%d", &value) == 1);
        if (f)
                fclose(f);
        return value;
}

static void test_scores(void)
{
        struct init_world w;

        init_world_open(&w);
        int before = score(&w, WORKER);
        pid_t copy = keep(&w, COPY, INIT_KEEP), aside = keep(&w, COPY, INIT_KEEP_ASIDE);
        check_eq_int(score(&w, copy), 500);
        check_eq_int(score(&w, aside), 500);
        check_eq_int(score(&w, WORKER), before);
        check_eq_int(score(&w, order(&w, CHILD)), before);
        request(&w, INIT_RESTORE, copy);
        check(was_killed(expect(&w, INIT_CLEARED, copy)));
        check_eq_int(score(&w, copy), 500);
        request(&w, INIT_WAKE, 0);
        check_eq_int(awaken(&w), copy);
        check_eq_int(score(&w, copy), 1000);
        init_world_close(&w);
}

static void test_most_copies(void)
{
        struct init_world w;
        pid_t copies[INIT_COPIES_MAX];

        init_world_open(&w);
        for (int i = 0; i < INIT_COPIES_MAX; i++)
                copies[i] = keep(&w, COPY, i % 3 == 1 ? INIT_KEEP_ASIDE : INIT_KEEP);
        pid_t one_more = order(&w, COPY);
        request(&w, INIT_KEEP, one_more);
        expect(&w, INIT_REFUSED, one_more);
        check(ends(&w, one_more));
        one_more = order(&w, COPY);
        request_keep(&w, INIT_KEEP, one_more, copies[3], copies[INIT_COPIES_MAX - 1]);
        expect(&w, INIT_KEPT, one_more);
        check(ends(&w, copies[3]) && ends(&w, copies[INIT_COPIES_MAX - 1]));
        copies[3] = keep(&w, COPY, INIT_KEEP);
        pid_t too_many = order(&w, COPY);
        request(&w, INIT_KEEP, too_many);
        expect(&w, INIT_REFUSED, too_many);

        /* All of them at once: those that are aside end, and the newest is chosen. */
        order(&w, EXIT);
        check_eq_int(WEXITSTATUS(expect(&w, INIT_CLEARED, copies[3])), 7);
        for (int i = 0; i < INIT_COPIES_MAX - 1; i++)
                check_eq_int(lives(&w, copies[i]), i % 3 != 1);
        request(&w, INIT_WAKE, 0);
        check_eq_int(awaken(&w), copies[3]);
        init_world_close(&w);
}

static void test_ends(void)
{
        struct init_world w;

        /* No copy, or only one aside. */
        for (int aside = 0; aside < 2; aside++) {
                init_world_open(&w);
                if (aside)
                        keep(&w, COPY, INIT_KEEP_ASIDE);
                order(&w, EXIT);
                check_eq_int(WEXITSTATUS(expect(&w, INIT_ENDED, 0)), 7);
                expect_end(&w);
                init_world_close(&w);
        }
        init_world_open(&w);
        request(&w, INIT_RESTORE, 0);
        check(was_killed(expect(&w, INIT_ENDED, 0)));
        expect_end(&w);
        init_world_close(&w);

        /* The control pipe, in each state. */
        for (int state = 0; state < 4; state++) {
                init_world_open(&w);
                pid_t copy = keep(&w, state == 2 ? MUTE_COPY : COPY, INIT_KEEP);
                if (state == 1)
                        order(&w, HANG);
                if (state > 0)
                        request(&w, INIT_RESTORE, copy);
                if (state == 3)
                        expect(&w, INIT_CLEARED, copy);
                init_world_close(&w);
        }
}

/* Sends requests that only the state RUNNING accepts. RESTORE 0 and WAKE are not among them. */
static void ask_in_vain(struct init_world *w, pid_t stopped, pid_t copy)
{
        request(w, INIT_INTERRUPT, 0);
        request(w, INIT_INTERRUPT, 1);
        request(w, INIT_KEEP, stopped);
        request_keep(w, INIT_KEEP_ASIDE, stopped, copy, copy);
        request(w, INIT_DROP, copy);
        request(w, INIT_DROP, stopped);
        request(w, INIT_RESTORE, copy);
        request(w, INIT_COUNT, 0);
}

static void expect_in_vain(struct init_world *w, pid_t stopped)
{
        expect(w, INIT_REFUSED, stopped);
        expect(w, INIT_REFUSED, stopped);
        expect(w, INIT_COUNTED, 0);
}

static void test_stopping(void)
{
        struct init_world w;

        init_world_open(&w);
        pid_t child = order(&w, CHILD), old = keep(&w, COPY, INIT_KEEP),
              newest = keep(&w, COPY, INIT_KEEP), other = keep(&w, COPY, INIT_KEEP),
              spare = order(&w, COPY);
        pid_t other_outside = outside(&w, other), init = outside(&w, 1);
        order(&w, HANG); /* the state lasts for half a second in which init runs */
        check_eq_int(kill(init, SIGSTOP), 0);
        request(&w, INIT_RESTORE, old);
        ask_in_vain(&w, spare, newest);
        request(&w, INIT_WAKE, 0);
        request(&w, INIT_COUNT, 0);
        check_eq_int(kill(init, SIGCONT), 0);
        expect_in_vain(&w, spare);
        expect(&w, INIT_COUNTED, 0);
        check_eq_int(kill(other_outside, SIGKILL), 0);
        expect(&w, INIT_GONE, other);
        check(was_killed(expect(&w, INIT_CLEARED, old)));
        check(!lives(&w, child) && !lives(&w, WORKER) && !lives(&w, spare));
        check(lives(&w, newest));

        /* CLEARED */
        ask_in_vain(&w, newest, old);
        expect_in_vain(&w, newest);
        request(&w, INIT_RESTORE, 0);
        end_copy(&w, newest);
        expect(&w, INIT_GONE, newest);
        expect_none(&w);
        request(&w, INIT_WAKE, 1);
        check_eq_int(awaken(&w), -old);

        /* It is the worker, and no copy. */
        request(&w, INIT_KEEP, old);
        expect(&w, INIT_REFUSED, old);
        request(&w, INIT_INTERRUPT, 0);
        expect_none(&w);
        check_eq_int(order(&w, SIGINTS), 1);
        order(&w, EXIT);
        check_eq_int(WEXITSTATUS(expect(&w, INIT_ENDED, 0)), 7);
        expect_end(&w);
        init_world_close(&w);
}

/* The chosen copy ends before the worker has ended: the worker continues. */
static void test_stopping_is_given_up(void)
{
        struct init_world w;

        init_world_open(&w);
        pid_t child = order(&w, CHILD), copy = keep(&w, COPY, INIT_KEEP),
              other = keep(&w, COPY, INIT_KEEP);
        pid_t copy_outside = outside(&w, copy), init = outside(&w, 1);
        order(&w, HANG);
        check_eq_int(kill(init, SIGSTOP), 0);
        request(&w, INIT_RESTORE, copy);
        request(&w, INIT_COUNT, 0);
        check_eq_int(kill(init, SIGCONT), 0);
        expect(&w, INIT_COUNTED, 0);
        check_eq_int(kill(copy_outside, SIGKILL), 0);
        expect(&w, INIT_GONE, copy);
        expect_none(&w);
        check(lives(&w, WORKER) && lives(&w, other));
        check(!is_stopped(&w, other) && (!lives(&w, child) || !is_stopped(&w, child)));
        request(&w, INIT_RESTORE, copy); /* there is none any more */
        expect_none(&w);

        /* RESTORE 0 kills a worker also while it is being stopped. */
        request(&w, INIT_RESTORE, other);
        expect_none(&w);
        request(&w, INIT_RESTORE, 0);
        check(was_killed(expect(&w, INIT_CLEARED, other)));
        request(&w, INIT_WAKE, 0);
        check_eq_int(awaken(&w), other);
        init_world_close(&w);
}

static void test_clearing(void)
{
        struct init_world w;

        init_world_open(&w);
        pid_t first = keep(&w, COPY, INIT_KEEP), second = keep(&w, COPY, INIT_KEEP),
              aside = keep(&w, COPY, INIT_KEEP_ASIDE), mute = keep(&w, MUTE_COPY, INIT_KEEP);
        request(&w, INIT_RESTORE, 0);
        check(ends(&w, WORKER) && ends(&w, aside));
        ask_in_vain(&w, second, mute);
        expect_in_vain(&w, second);
        request(&w, INIT_RESTORE, 0);
        request(&w, INIT_WAKE, 0);
        end_copy(&w, first);
        expect(&w, INIT_GONE, first);
        /* init chooses the next copy and then reports the end of this one. */
        end_copy(&w, mute);
        check(was_killed(expect(&w, INIT_CLEARED, second)));
        expect(&w, INIT_GONE, mute);
        end_copy(&w, second);
        check(was_killed(expect(&w, INIT_ENDED, 0)));
        expect_end(&w);
        init_world_close(&w);

        /* None is left. */
        init_world_open(&w);
        mute = keep(&w, MUTE_COPY, INIT_KEEP);
        request(&w, INIT_RESTORE, 0);
        check(ends(&w, WORKER));
        end_copy(&w, mute);
        check(was_killed(expect(&w, INIT_ENDED, 0)));
        expect_end(&w);
        init_world_close(&w);

        /* It never answers. */
        init_world_open(&w);
        keep(&w, MUTE_COPY, INIT_KEEP);
        order(&w, EXIT);
        check_eq_int(WEXITSTATUS(expect(&w, INIT_ENDED, 0)), 7);
        expect_end(&w);
        init_world_close(&w);
}

/* An aside copy replaces the worker if a request names it, and otherwise ends with the worker. */
static void test_aside(void)
{
        struct init_world w;

        init_world_open(&w);
        pid_t newest = keep(&w, COPY, INIT_KEEP), aside = keep(&w, COPY, INIT_KEEP_ASIDE),
              other = keep(&w, COPY, INIT_KEEP_ASIDE);
        request(&w, INIT_RESTORE, aside);
        check(was_killed(expect(&w, INIT_CLEARED, aside)));
        check(lives(&w, newest) && !lives(&w, other));
        request(&w, INIT_WAKE, 0);
        check_eq_int(awaken(&w), aside);
        end_copy(&w, newest);
        expect(&w, INIT_GONE, newest);
        expect_none(&w);
        init_world_close(&w);
}

/* Again and again, as a session does that restores one checkpoint. */
static void test_many_restores(void)
{
        struct init_world w;

        init_world_open(&w);
        pid_t copy = keep(&w, COPY, INIT_KEEP);
        for (int i = 0; i < 50; i++) {
                order(&w, CHILD);
                order(&w, ORPHAN);
                request(&w, INIT_RESTORE, i % 2 ? copy : 0);
                check(was_killed(expect(&w, INIT_CLEARED, copy)));
                request(&w, INIT_WAKE, i % 3 == 0);
                check_eq_int(awaken(&w), i % 3 == 0 ? -copy : copy);
                copy = keep(&w, COPY, INIT_KEEP);
        }
        init_world_close(&w);
}

/* The worker, which has stopped, does not reap its children: init does not wait for that. */
static void test_children_do_not_delay(void)
{
        struct init_world w;
        uint64_t least = UINT64_MAX;

        if (access("/proc/sys/kernel/ns_last_pid", R_OK) < 0)
                return;
        init_world_open(&w);
        for (int i = 0; i < 5; i++) {
                pid_t copy = keep(&w, COPY, INIT_KEEP), child = order(&w, CHILD);
                uint64_t began = clock_us();
                request(&w, INIT_RESTORE, copy);
                check(was_killed(expect(&w, INIT_CLEARED, copy)));
                least = clock_us() - began < least ? clock_us() - began : least;
                check(!lives(&w, child));
                request(&w, INIT_WAKE, 0);
                check_eq_int(awaken(&w), copy);
        }
        check(least < 400000); /* half a second, if it waits */
        init_world_close(&w);
}

int main(void)
{
        signal(SIGPIPE, SIG_IGN);
        run(test_interrupts);
        run(test_forged_pids);
        run(test_no_requests);
        run(test_rest);
        run(test_hold);
        run(test_hold_of_timers);
        run(test_scores);
        run(test_most_copies);
        run(test_ends);
        run(test_stopping);
        run(test_stopping_is_given_up);
        run(test_clearing);
        run(test_aside);
        run(test_many_restores);
        run(test_children_do_not_delay);
        return 0;
}
