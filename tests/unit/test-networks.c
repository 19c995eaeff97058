/* A network namespace is given to a later session only if it is empty, of the same principal, and no living session has it. */
#include "supervisor/monitor/template/networks.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/unit/test.h"

static struct networks *networks;

/* A session's PID 1: in a network namespace of its own, or in that of another session. */
struct session {
        pid_t pid;
        uint64_t number;
        int socket; /* made in it, and here now; -1: none */
};

static pid_t start(int *socket, void (*enter)(void *), void *data)
{
        int pair[2];

        check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
        pid_t pid = fork();
        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed check aborts this program */
                enter(data);
                int made = socket ? (int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0) : -1;
                fd_send(pair[1], "", 1, &made, socket ? 1 : 0, 0);
                if (made >= 0)
                        close(made);
                pause();
                _exit(0);
        }
        char byte;
        int fds[1] = {-1};
        size_t n = 1;
        check(pid > 0 && fd_receive(pair[0], &byte, 1, fds, &n, NULL, 0) == 1);
        if (socket)
                *socket = fds[0];
        close(pair[0]);
        close(pair[1]);
        return pid;
}

static void enter_new(void *data)
{
        (void)data;
        if (unshare(geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) < 0)
                _exit(1);
}

static void enter_given(void *data)
{
        if (setns(*(int *)data, CLONE_NEWNET) < 0)
                _exit(1);
}

static struct session begin(bool with_socket)
{
        struct session s = {.socket = -1};
        struct error err = {};

        s.pid = start(with_socket ? &s.socket : NULL, enter_new, NULL);
        check_ok(networks_enter(networks, s.pid, &s.number, &err));
        check(s.number > 0);
        return s;
}

static void kill_it(pid_t pid)
{
        check(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
}

static uint64_t end(struct session s, uint32_t principal)
{
        struct network_left left = networks_open(s.pid);

        check(left.namespace >= 0 && left.sockets >= 0);
        kill_it(s.pid);
        networks_leave(networks, s.number, principal, &left);
        check_eq_int(left.namespace, -1);
        check_eq_int(left.sockets, -1);
        return s.number;
}

/* The number of the namespace that a session of this principal would get; 0: none. */
static uint64_t take(uint32_t principal)
{
        struct stat st = {};

        int fd = networks_take(networks, principal);
        if (fd < 0)
                return 0;
        check(fstat(fd, &st) == 0);
        close(fd);
        return st.st_ino;
}

static void set_up(void)
{
        check_eq_int(networks_new(&networks, NULL), 0);
}

static void tear_down(void)
{
        networks = networks_unref(networks);
}

/* It could be that of another session. */
static void test_a_hidden_namespace_is_refused(void)
{
        uint64_t number = 1;
        struct error err = {};

        set_up();
        pid_t pid = start(NULL, enter_new, NULL);
        check(kill(pid, SIGKILL) == 0);
        check(waitid(P_PID, (id_t)pid, &(siginfo_t){}, WEXITED | WNOWAIT) == 0);
        check_eq_int(networks_enter(networks, pid, &number, &err), -ENOENT);
        check_eq_int(number, 0);
        check(waitpid(pid, NULL, 0) == pid);
        end(begin(false), 1);
        tear_down();
}

static void test_given_once_to_the_same_principal(void)
{
        set_up();
        uint64_t number = end(begin(false), 7);
        check_eq_int(take(8), 0);
        check_eq_int(take(0), 0);
        check_eq_int(take(7), number);
        check_eq_int(take(7), 0);
        tear_down();
}

static void test_a_socket_that_is_left(void)
{
        set_up();
        struct session s = begin(true);
        end(s, 1);
        check_eq_int(take(1), 0);
        close(s.socket);
        check_eq_int(take(1), 0); /* it was dropped */

        s = begin(true);
        uint64_t number = end(s, 1);
        close(s.socket);
        check_eq_int(take(1), number);
        tear_down();
}

/* In the queue of a socket of another namespace, of which nothing lists it. */
static void test_a_socket_in_flight(void)
{
        int pair[2];

        set_up();
        check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
        for (int is_drained = 0; is_drained <= 1; is_drained++) {
                struct session s = begin(true);
                check_eq_int(fd_send(pair[0], "", 1, &s.socket, 1, 0), 0);
                close(s.socket);
                uint64_t number = end(s, 1);
                char byte;
                if (is_drained)
                        check_eq_int(recv(pair[1], &byte, 1, 0), 1);
                check_eq_int(take(1), is_drained ? number : 0);
                if (!is_drained)
                        check_eq_int(recv(pair[1], &byte, 1, 0), 1);
        }
        close(pair[0]);
        close(pair[1]);
        tear_down();
}

static void test_bounds(void)
{
        uint64_t numbers[NETWORKS_MAX + 1];

        set_up();
        for (size_t i = 0; i <= NETWORKS_PRINCIPAL_MAX; i++)
                numbers[i] = end(begin(false), 1);
        for (size_t i = NETWORKS_PRINCIPAL_MAX; i > 0; i--)
                check_eq_int(take(1), numbers[i]);
        check_eq_int(take(1), 0);
        for (size_t i = 0; i <= NETWORKS_MAX; i++)
                numbers[i] = end(begin(false), (uint32_t)i);
        check_eq_int(take(0), 0); /* the oldest */
        for (size_t i = 1; i <= NETWORKS_MAX; i++)
                check_eq_int(take((uint32_t)i), numbers[i]);
        tear_down();
}

/* A hostile template may put a session anywhere. */
static void test_no_two_sessions_in_one(void)
{
        struct error err = {};
        uint64_t number;

        if (geteuid() != 0)
                return;
        set_up();
        struct session first = begin(false);
        struct network_left left = networks_open(first.pid);
        pid_t second = start(NULL, enter_given, &left.namespace);
        check_eq_int(networks_enter(networks, second, &number, &err), -EPERM);
        check_has(err.text, "network namespace of another");
        check_eq_int(number, 0);
        kill_it(first.pid);
        int held = dup(left.namespace);
        networks_leave(networks, first.number, 1, &left);
        /* It waits for a session now. */
        check_eq_int(networks_enter(networks, second, &number, &err), -EPERM);
        check_eq_int(take(1), first.number);
        /* The control: it was given out. */
        check_ok(networks_enter(networks, second, &number, &err));
        check_eq_int(number, first.number);
        kill_it(second);
        close(held);
        tear_down();
}

static void test_one_that_was_not_its_own(void)
{
        set_up();
        struct session first = begin(false), second = begin(false);
        struct network_left left = networks_open(second.pid), none = NETWORK_LEFT_NONE;
        kill_it(first.pid);
        networks_leave(networks, first.number, 1, &left); /* PID 1 has moved */
        check_eq_int(left.namespace, -1);
        check_eq_int(take(1), 0);
        kill_it(second.pid);
        networks_leave(networks, second.number, 1, &none); /* it was not killed */
        check_eq_int(take(1), 0);
        networks_leave(networks, second.number, 1, &none);

        struct session third = begin(false);
        networks_close(networks); /* the template has ended */
        end(third, 1);
        check_eq_int(take(1), 0);
        left = networks_open(third.pid); /* it has ended */
        check_eq_int(left.namespace, -1);
        check_eq_int(left.sockets, -1);
        tear_down();
}

int main(void)
{
        run(test_a_hidden_namespace_is_refused);
        run(test_given_once_to_the_same_principal);
        run(test_a_socket_that_is_left);
        run(test_a_socket_in_flight);
        run(test_bounds);
        run(test_no_two_sessions_in_one);
        run(test_one_that_was_not_its_own);
        return 0;
}
