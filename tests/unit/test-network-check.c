/* An empty network namespace is accepted; each interface or route that leads out of it is found. */
#include "supervisor/monitor/template/network-check.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "rpc/egress-messages.h"
#include "tests/unit/test.h"

static void bring_up_loopback(void)
{
        struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
                _exit(1);
        close(fd);
}

static struct event_base *base;
static struct children *children;
static struct child_tasks *tasks;
static struct {
        int count;
        int port; /* of the listener; 0: there is none */
        struct error error;
} answer;

static void on_answer(void *data, const struct error *error, int listener)
{
        struct sockaddr_in address = {};
        socklen_t n = sizeof(address);

        (void)data;
        answer.port = 0;
        if (listener >= 0 && getsockname(listener, (struct sockaddr *)&address, &n) == 0 &&
            address.sin_addr.s_addr == htonl(INADDR_LOOPBACK))
                answer.port = ntohs(address.sin_port);
        if (listener >= 0)
                close(listener);
        answer.count++;
        answer.error = error ? *error : (struct error){0};
        event_base_loopbreak(base);
}

static void set_up(void)
{
        base = event_base_new();
        check_eq_int(children_new(&children, NULL), 0);
        check_eq_int(child_tasks_new(base, children, &tasks, NULL), 0);
        answer.count = 0;
}

static void tear_down(void)
{
        child_tasks_free(tasks);
        children_free(children);
        event_base_free(base);
}

static int network_check(pid_t pid, enum config_network network, struct error *err)
{
        struct network_check *started;

        set_up();
        int r = network_check_start(tasks, pid, network, on_answer, NULL, &started, err);
        if (r >= 0) {
                event_base_dispatch(base);
                check_eq_int(answer.count, 1);
                *err = answer.error;
                r = -answer.error.code;
        }
        tear_down();
        return r;
}

/* A process in its own namespaces, which prepare() sets up. */
static int check_for(enum config_network network, int flags, void (*prepare)(void),
                     struct error *err)
{
        int ready[2];
        char byte = 0;

        check_eq_int(pipe(ready), 0);
        pid_t pid = (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
        check(pid >= 0);
        if (pid == 0) {
                if (prepare)
                        prepare();
                fd_write_all(ready[1], &byte, 1);
                pause();
                _exit(0);
        }
        close(ready[1]);
        check_eq_int(fd_read_full(ready[0], &byte, 1), 1);
        close(ready[0]);
        int r = network_check(pid, network, err);
        kill(pid, SIGKILL);
        check_eq_int(waitpid(pid, NULL, 0), pid);
        return r;
}

static int check_with(int flags, void (*prepare)(void), struct error *err)
{
        return check_for(CONFIG_NETWORK_NONE, flags, prepare, err);
}

static void test_empty(void)
{
        struct error err = {0};

        check_ok(check_with(CLONE_NEWUSER | CLONE_NEWNET, NULL, &err));
}

static void test_loopback_up(void)
{
        struct error err = {0};

        check_eq_int(check_with(CLONE_NEWUSER | CLONE_NEWNET, bring_up_loopback, &err), -EISCONN);
        check_has(err.text, "lo is up");
}

static void test_loopback_wanted(void)
{
        struct error err = {0};

        check_ok(check_for(CONFIG_NETWORK_LOOPBACK, CLONE_NEWUSER | CLONE_NEWNET, bring_up_loopback,
                           &err));
        check_eq_int(check_for(CONFIG_NETWORK_LOOPBACK, CLONE_NEWUSER | CLONE_NEWNET, NULL, &err),
                     -ENETDOWN);
        check_has(err.text, "loopback interface is down");
        err = (struct error){0};
        check(check_for(CONFIG_NETWORK_LOOPBACK, CLONE_NEWUSER, NULL, &err) < 0);
        check(err.text[0]);
}

static void take_port(void)
{
        const struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(EGRESS_PORT)};

        bring_up_loopback();
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        check(bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0);
        check(listen(fd, 1) == 0);
}

/* The listener of the proxy, unless code of the image was there before. */
static void test_listener(void)
{
        struct error err = {0};

        check_ok(check_for(CONFIG_NETWORK_ALLOW, CLONE_NEWUSER | CLONE_NEWNET, bring_up_loopback,
                           &err));
        check_eq_int(answer.port, EGRESS_PORT);
        check_ok(check_for(CONFIG_NETWORK_LOOPBACK, CLONE_NEWUSER | CLONE_NEWNET, bring_up_loopback,
                           &err));
        check_eq_int(answer.port, 0);
        check_eq_int(check_for(CONFIG_NETWORK_ALLOW, CLONE_NEWUSER | CLONE_NEWNET, take_port, &err),
                     -EADDRINUSE);
        check_has(err.text, "listen on port 3128 of the sandbox");
}

static void test_host_network(void)
{
        struct error err = {0};

        check(check_with(CLONE_NEWUSER, NULL, &err) < 0);
        check(err.text[0]);
}

static pid_t only_child(void)
{
        char path[64], text[64] = "";

        snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        check(fd_read_full(fd, text, sizeof(text) - 1) > 0);
        close(fd);
        return (pid_t)strtol(text, NULL, 10);
}

static void on_tick(evutil_socket_t fd, short what, void *data)
{
        (void)fd;
        (void)what;
        if (++*(int *)data == 5)
                event_base_loopbreak(base);
}

/* While the child is held, the loop serves other events. */
static void test_held(void)
{
        struct timeval every = {.tv_usec = 1000};
        struct network_check *started;
        struct error err = {0};
        int ticks = 0;

        set_up();
        check_ok(network_check_start(tasks, getpid(), CONFIG_NETWORK_NONE, on_answer, NULL,
                                     &started, &err));
        pid_t child = only_child();
        kill(child, SIGSTOP);
        check_eq_int(waitpid(child, NULL, WUNTRACED), child);
        struct event *tick = event_new(base, -1, EV_PERSIST, on_tick, &ticks);
        event_add(tick, &every);
        event_base_dispatch(base);
        check_eq_int(ticks, 5);
        check_eq_int(answer.count, 0);
        event_free(tick);
        kill(child, SIGCONT);
        event_base_dispatch(base);
        check_eq_int(answer.count, 1);
        tear_down();
}

static void test_cancel(void)
{
        struct network_check *started;
        struct error err = {0};

        set_up();
        check_ok(network_check_start(tasks, getpid(), CONFIG_NETWORK_NONE, on_answer, NULL,
                                     &started, &err));
        check(!network_check_cancel(started));
        event_base_dispatch(base);
        check_eq_int(answer.count, 0);
        tear_down();
        check_eq_int(waitpid(-1, NULL, WNOHANG), -1);
}

static void test_no_such_process(void)
{
        struct error err = {0};
        pid_t pid = fork();

        if (pid == 0)
                _exit(0);
        check_eq_int(waitpid(pid, NULL, 0), pid);
        check(network_check(pid, CONFIG_NETWORK_NONE, &err) < 0);
}

int main(void)
{
        run(test_empty);
        run(test_loopback_up);
        run(test_loopback_wanted);
        run(test_listener);
        run(test_host_network);
        run(test_held);
        run(test_cancel);
        run(test_no_such_process);
        return 0;
}
