/* A child of init is found although other children end while the kernel lists them. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "supervisor/monitor/template/sandbox-copy.h"
#include "supervisor/monitor/template/sandbox-internal.h"
#include "tests/unit/test.h"

enum { ROUNDS = 20, OTHERS = 150 };

static void end_with(pid_t parent)
{
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(0);
}

static pid_t sleeper(void)
{
        pid_t parent = getpid(), pid = fork();

        if (pid == 0) {
                end_with(parent);
                for (;;)
                        pause();
        }
        if (pid < 0)
                _exit(1);
        return pid;
}

static void end(pid_t pid)
{
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
}

/* Stands for init: reports its youngest child, and ends all others while the test searches for that child. */
static void end_children(int report, int next)
{
        for (;;) {
                pid_t others[OTHERS];
                char byte;

                for (int i = 0; i < OTHERS; i++)
                        others[i] = sleeper();
                pid_t child = sleeper();
                if (write(report, &child, sizeof(child)) != sizeof(child))
                        _exit(1);
                for (int i = OTHERS - 1; i >= 0; i--)
                        end(others[i]);
                if (write(report, &(pid_t){0}, sizeof(child)) != sizeof(child) ||
                    read(next, &byte, 1) != 1)
                        _exit(0);
                end(child);
        }
}

static void test_children_that_end(void)
{
        int report[2], next[2];
        struct sandbox_copy found;
        pid_t child, done;

        check(pipe(report) == 0 && pipe(next) == 0);
        pid_t test = getpid(), init = fork();
        if (init == 0) {
                end_with(test);
                close(next[1]);
                end_children(report[1], next[0]);
        }
        check(init > 0);
        close(next[0]);
        for (int i = 0; i < ROUNDS; i++) {
                struct pollfd is_done = {.fd = report[0], .events = POLLIN};

                check_eq_int(read(report[0], &child, sizeof(child)), sizeof(child));
                while (poll(&is_done, 1, 0) == 0) {
                        check_eq_int(sandbox_find_child(init, child, &found), 0);
                        check_eq_int(found.pid, child);
                        close(found.dir);
                }
                check_eq_int(read(report[0], &done, sizeof(done)), sizeof(done));
                check_eq_int(sandbox_find_child(init, getpid(), &found), -ESRCH); /* the control */
                check_eq_int(write(next[1], "", 1), 1);
        }
        close(next[1]);
        end(init);
        close(report[0]);
        close(report[1]);
}

int main(void)
{
        run(test_children_that_end);
        return 0;
}
