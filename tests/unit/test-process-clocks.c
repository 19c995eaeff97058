/* The clocks of descendants: they stand still while these sleep, and show a run of any of them. */
#include "supervisor/monitor/process/process-clocks.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/test.h"

static void on_signal(int number)
{
        (void)number;
}

/* With a descendant below it, if is_parent. */
static pid_t sleeper(bool is_parent)
{
        int ready[2];
        char byte;

        check_eq_int(pipe(ready), 0);
        pid_t pid = fork();
        check(pid >= 0);
        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                signal(SIGUSR1, on_signal);
                pid_t below = is_parent ? sleeper(false) : 0;
                if (write(ready[1], &below, sizeof(below)) != sizeof(below))
                        _exit(1);
                for (;;)
                        pause();
        }
        check_eq_int(read(ready[0], &byte, 1), 1);
        close(ready[0]);
        close(ready[1]);
        return pid;
}

/* Until they sleep. */
static void read_at_rest(struct process_clocks *c)
{
        for (int i = 0; i < 500; i++) {
                process_clocks_read(c);
                usleep(10000);
                if (process_clocks_stand_still(c))
                        return;
        }
        check(!"they sleep");
}

static void end(pid_t pid)
{
        check_eq_int(kill(pid, SIGKILL), 0);
        check_eq_int(waitpid(pid, NULL, 0), pid);
}

static void test_a_process_that_wakes_up(void)
{
        struct process_clocks c;
        pid_t alone = sleeper(false), parent = sleeper(true);

        process_clocks_find(&c, getpid());
        check_eq_int((long)c.n, 3);
        for (size_t i = 0; i < c.n; i++)
                check_eq_int(c.of[i].inner, c.of[i].pid);
        check(c.of[2].pid != alone && c.of[2].pid != parent);
        for (size_t i = 0; i < 3; i++) {
                read_at_rest(&c);
                usleep(50000);
                check(process_clocks_stand_still(&c));
                check_eq_int(kill(c.of[i].pid, SIGUSR1), 0);
                for (int n = 0; n < 500 && process_clocks_stand_still(&c); n++)
                        usleep(10000);
                check(!process_clocks_stand_still(&c));
        }
        read_at_rest(&c);
        end(alone);
        check(!process_clocks_stand_still(&c));
        process_clocks_read(&c);
        check_eq_int((long)c.n, 0);
        check(!process_clocks_stand_still(&c));
        end(parent);
}

static void test_all_of_a_growth(void)
{
        const struct process_clocks c = {2, {{.inner = 2}, {.inner = 5}}}, none = {};
        struct process_growth growth = {.n = 3, .seen = {{.pid = 1}, {.pid = 2}, {.pid = 5}}};

        check(process_clocks_are_of(&c, &growth));
        check(!process_clocks_are_of(&none, &growth));
        growth.n = 2;
        check(!process_clocks_are_of(&c, &growth));
        growth = (struct process_growth){.n = 4,
                                         .seen = {{.pid = 1}, {.pid = 2}, {.pid = 5}, {.pid = 6}}};
        check(!process_clocks_are_of(&c, &growth));
        growth = (struct process_growth){.n = 1, .seen = {{.pid = 1}}};
        check(!process_clocks_are_of(&none, &growth));
}

static void test_too_many(void)
{
        struct process_clocks c;
        pid_t pids[PROCESS_CLOCKS_MAX + 1];

        for (size_t i = 0; i <= PROCESS_CLOCKS_MAX; i++) {
                pids[i] = sleeper(false);
                process_clocks_find(&c, getpid());
                check_eq_int((long)c.n, i == PROCESS_CLOCKS_MAX ? 0 : (long)i + 1);
        }
        for (size_t i = 0; i <= PROCESS_CLOCKS_MAX; i++)
                end(pids[i]);
}

static int64_t spin_in(bool own, long ms)
{
        int64_t before = process_clocks_of_others();
        pid_t pid = own ? 0 : fork();

        if (pid == 0) {
                struct timespec t;
                do {
                        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
                } while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < ms);
                if (!own)
                        _exit(0);
        } else {
                check_eq_int(waitpid(pid, NULL, 0), pid);
        }
        return process_clocks_of_others() - before;
}

/* Both can be higher: the machine does other work too. */
static void test_what_others_use(void)
{
        check(process_clocks_of_others() != INT64_MAX);
        check(spin_in(false, 200) > 180000);
        check(spin_in(true, 50) > -20000);
}

int main(void)
{
        run(test_what_others_use);
        run(test_a_process_that_wakes_up);
        run(test_all_of_a_growth);
        run(test_too_many);
        return 0;
}
