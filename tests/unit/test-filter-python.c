/*
 * The standard library under the worker's filter; the control is the same without a filter.
 *
 *     test-filter-python                        the test
 *     test-filter-python KIND COMMAND ARGS…     runs a command under a filter, "none" for no filter
 * (docs/seccomp.md)
 */
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/filter-load.h"
#include "policy/seccomp/filter.h"
#include "tests/unit/test.h"

static const char interpreter[] = "/usr/bin/python3";

static int kind_from_name(const char *name)
{
        for (int kind = 0; kind < FILTER_KIND_MAX; kind++)
                if (strcmp(filter_kind_name((enum filter_kind)kind), name) == 0)
                        return kind;
        check_eq_str(name, "none");
        return -1;
}

/* In the place of init: the kernel makes the calls that the filter sends to its listener. */
static void answer_calls(int socket)
{
        struct seccomp_notif request = {};
        struct error err = {};
        size_t count = 1;
        int listener = -1;
        char byte;

        check_ok(fd_receive(socket, &byte, 1, &listener, &count, NULL, 0));
        for (;;) {
                struct pollfd p = {.fd = listener, .events = POLLIN};
                if (poll(&p, 1, -1) < 0 || !(p.revents & POLLIN))
                        _exit(0);
                memset(&request, 0, sizeof(request));
                if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request) < 0)
                        continue;
                struct seccomp_notif_resp response = {.id = request.id,
                                                      .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
                ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
        }
}

static void load(int fd)
{
        struct error err = {};
        int pair[2], listener = -1;

        check_eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        pid_t pid = fork();
        check(pid >= 0);
        if (pid == 0) {
                close(pair[0]);
                answer_calls(pair[1]);
        }
        close(pair[1]);
        check_ok(filter_load_listening(fd, true, &listener, &err));
        check_ok(fd_send(pair[0], "l", 1, &listener, listener >= 0, 0));
        close(listener);
        close(pair[0]);
}

/* Does not return. */
static void exec_under(int kind, char *const command[])
{
        struct error err = {};

        if (kind >= 0) {
                int fd = filter_compile((enum filter_kind)kind, &err);
                check_ok(fd);
                check_eq_int(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
                load(fd);
        }
        execvp(command[0], command);
        test_fail_("exec %s: %s", command[0], strerror(errno));
}

static int run_workload(int kind)
{
        const char *source = getenv("CLOISTER_SOURCE");
        char script[4096];
        int status = 0;

        snprintf(script, sizeof(script), "%s/tests/unit/filter-workload.py", source ? source : ".");
        char *const command[] = {(char *)interpreter, (char *)"-I", script,
                                 kind < 0 ? (char *)"--control" : NULL, NULL};
        fflush(stdout);
        pid_t pid = fork();
        check(pid >= 0);
        if (pid == 0)
                exec_under(kind, command);
        check_eq_int(waitpid(pid, &status, 0), pid);
        return status;
}

static void test_control(void)
{
        check_eq_int(run_workload(-1), 0);
}

static void test_under_the_filter(void)
{
        check_eq_int(run_workload(FILTER_WORKER), 0);
}

int main(int argc, char **argv)
{
        if (argc > 2)
                exec_under(kind_from_name(argv[1]), argv + 2);
        if (access(interpreter, X_OK) < 0) {
                printf("no %s\n", interpreter);
                return TEST_SKIP;
        }
        run(test_control);
        run(test_under_the_filter);
        return 0;
}
