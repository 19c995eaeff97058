/* Which children of the monitor are killed: those that belong to no request, and no others. */
#include "supervisor/monitor/process/children.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "supervisor/monitor/process/child.h"
#include "tests/unit/test.h"

static pid_t make_child(void)
{
        pid_t pid = fork();

        check(pid >= 0);
        if (pid == 0) {
                pause();
                _exit(0);
        }
        return pid;
}

static bool lives(pid_t pid)
{
        return kill(pid, 0) == 0;
}

static void end(pid_t pid)
{
        check_eq_int(kill(pid, SIGKILL), 0);
        check_eq_int(waitpid(pid, NULL, 0), pid);
}

static struct children *make(void)
{
        struct children *c;
        struct error err = {};

        check_ok(children_new(&c, &err));
        return c;
}

static void test_unknown_is_killed(void)
{
        struct children *c = make();
        pid_t known = make_child(), unknown = make_child();

        check_eq_int(children_add(c, known), 0);
        check(!children_is_new(c, known));
        check(children_is_new(c, unknown));
        check_eq_int(children_kill_unknown(c), 1);
        check(!lives(unknown));
        check(lives(known));
        end(known);
        children_free(c);
}

/* A shell's background process stays a child of the program that the shell execs. */
static void test_earlier_child_lives(void)
{
        pid_t before = make_child();
        struct children *c = make();

        check_eq_int(children_kill_unknown(c), 0);
        check(lives(before));
        end(before);
        children_free(c);
}

/* Two templates create a session each; the first is finished while the second is being created. */
static void test_child_of_another_open_request_lives(void)
{
        struct children *c = make();
        uint64_t one = children_request(c), two = children_request(c);
        pid_t first = make_child(), second = make_child();

        check_eq_int(children_add(c, first), 0);
        children_request_close(c, &one, true);
        check_eq_int(one, 0);
        check_eq_int(children_kill_unknown(c), 0);
        check(lives(second));
        check(children_is_new(c, second));
        check_eq_int(children_add(c, second), 0);
        children_request_close(c, &two, true);
        check_eq_int(children_kill_unknown(c), 0);
        check(lives(second));
        end(first);
        end(second);
        children_free(c);
}

/* Requests without a pause between them do not protect a child forever. */
static void test_later_requests_do_not_protect_a_child(void)
{
        struct children *c = make();
        uint64_t one = children_request(c);
        pid_t unknown = make_child(), asked = make_child();

        check_eq_int(children_kill_unknown(c), 0);
        uint64_t two = children_request(c);
        check_eq_int(children_kill_unknown(c), 0);
        check(lives(unknown));
        check_eq_int(children_add(c, asked), 0);
        children_request_close(c, &one, true);
        check_eq_int(children_kill_unknown(c), 1);
        check(!lives(unknown));
        children_request_close(c, &two, false);
        end(asked);
        children_free(c);
}

/* A template ends while it creates a session: its child is killed, although it was requested. */
static void test_child_of_a_request_that_failed(void)
{
        struct children *c = make();
        uint64_t request = children_request(c);
        pid_t child = make_child(), another;

        children_request_close(c, &request, false);
        check_eq_int(children_kill_unknown(c), 0);
        check(!lives(child));
        /* It accounts for one child, once. */
        another = make_child();
        check_eq_int(children_kill_unknown(c), 1);
        check(!lives(another));
        request = children_request(c);
        children_request_close(c, &request, false);
        check_eq_int(children_kill_unknown(c), 0);
        another = make_child();
        check_eq_int(children_kill_unknown(c), 1);
        check(!lives(another));
        children_free(c);
}

static bool is_this(const void *data, pid_t pid)
{
        return *(const pid_t *)data == pid;
}

/* With one reading of the kernel's list, and none of a list that was read before some were killed. */
static void test_some_and_unknown(void)
{
        struct children *c = make();
        uint64_t request = children_request(c);
        pid_t of_template = make_child(), unknown = make_child(), known = make_child();
        const pid_t nobody = 0;

        check_eq_int(children_add(c, known), 0);
        /* Whatever is requested; the unknown one may be the requested one. */
        check_eq_int(children_kill_others(c, is_this, &of_template), 1);
        check(!lives(of_template));
        check(lives(unknown));
        check_eq_int(children_kill_others(c, is_this, &nobody), 0);
        check(lives(unknown));
        children_request_close(c, &request, true);
        check_eq_int(children_kill_others(c, is_this, &nobody), 0);
        check(!lives(unknown));
        check(lives(known));
        end(known);
        children_free(c);
}

static void test_reap(void)
{
        struct children *c = make();
        pid_t living = make_child(), dead = make_child();

        check_eq_int(kill(dead, SIGKILL), 0);
        check_eq_int(waitid(P_PID, (id_t)dead, &(siginfo_t){}, WEXITED | WNOWAIT), 0);
        check_eq_int(children_reap_unknown(c), 1);
        check(!lives(dead));
        check(lives(living));
        end(living);
        children_free(c);
}

static pid_t make_ending_child(int status)
{
        pid_t pid = fork();

        check(pid >= 0);
        if (pid == 0)
                _exit(status);
        return pid;
}

static void test_wait_has_a_deadline(void)
{
        pid_t ends = make_ending_child(7), hangs = make_child();
        int status = 0;

        check_eq_int(child_wait_in_time(ends, 5000, &status), 0);
        check_eq_int(WEXITSTATUS(status), 7);
        check_eq_int(child_wait_in_time(ends, 5000, NULL), -ECHILD);
        uint64_t before = clock_ms();
        check_eq_int(child_wait_in_time(hangs, 100, NULL), -ETIMEDOUT);
        check(clock_ms() - before >= 100);
        check(!lives(hangs)); /* killed and reaped */
}

/* A stopped process is killed as well; without descriptors there is no pidfd. */
static void test_wait_without_a_pidfd(void)
{
        struct rlimit none, before;
        pid_t stopped = make_child(), ends = make_ending_child(0);

        check_eq_int(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = before;
        none.rlim_cur = 0;
        check_eq_int(kill(stopped, SIGSTOP), 0);
        check_eq_int(setrlimit(RLIMIT_NOFILE, &none), 0);
        check_eq_int(child_wait_in_time(ends, 5000, NULL), 0);
        child_kill(stopped);
        check_eq_int(setrlimit(RLIMIT_NOFILE, &before), 0);
        check(!lives(stopped));
}

int main(void)
{
        run(test_wait_has_a_deadline);
        run(test_wait_without_a_pidfd);
        run(test_unknown_is_killed);
        run(test_earlier_child_lives);
        run(test_child_of_another_open_request_lives);
        run(test_later_requests_do_not_protect_a_child);
        run(test_child_of_a_request_that_failed);
        run(test_some_and_unknown);
        run(test_reap);
        return 0;
}
