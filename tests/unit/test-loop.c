/* The loop ends with an error when libevent could not watch a descriptor. */
#include "base/loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/test.h"

static void on_event(evutil_socket_t fd, short what, void *data)
{
        event_base_loopbreak(data);
}

/* Ends the loop if nothing else does. */
static void end_later(struct event_base *base, uint64_t ms)
{
        struct timeval later = clock_timeval_ms(ms);

        check_eq_int(event_base_once(base, -1, EV_TIMEOUT, on_event, base, &later), 0);
}

static int break_off(struct event_base *base)
{
        end_later(base, 1);
        return loop_run(base);
}

static int watch_open(struct event_base *base)
{
        int fds[2];

        check_eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        struct event *event = event_new(base, fds[0], EV_READ, on_event, base);
        check_eq_int(event_add(event, NULL), 0);
        check_eq_int(write(fds[1], "x", 1), 1);
        end_later(base, 60000);
        return loop_run(base);
}

/* epoll_ctl fails. */
static int watch_closed(struct event_base *base)
{
        int fds[2];

        check_eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        struct event *event = event_new(base, fds[0], EV_READ, on_event, base);
        close(fds[0]);
        event_add(event, NULL);
        end_later(base, 60000);
        return loop_run(base);
}

static int lose_epoll(struct event_base *base)
{
        struct epoll_event event = {};

        /* The one descriptor that is an epoll instance: any other answers EINVAL, and none EBADF. */
        for (int fd = 3; fd < 64; fd++)
                if (epoll_ctl(fd, EPOLL_CTL_DEL, 0, &event) < 0 && errno != EINVAL &&
                    errno != EBADF)
                        close(fd);
        end_later(base, 60000);
        return loop_run(base);
}

/* A warning stays for the life of the process: each case has its own. */
static int result_of(int (*what)(struct event_base *base))
{
        int status;
        pid_t pid = fork();

        check(pid >= 0);
        if (pid == 0) {
                struct event_base *base = loop_new();
                alarm(10);
                _exit(-what(base));
        }
        check_eq_int(waitpid(pid, &status, 0), pid);
        check(WIFEXITED(status));
        return -WEXITSTATUS(status);
}

static void test_breaks(void)
{
        check_eq_int(result_of(break_off), 0);
        check_eq_int(result_of(watch_open), 0);
}

static void test_cannot_watch(void)
{
        check_eq_int(result_of(watch_closed), -EIO);
}

static void test_cannot_wait(void)
{
        check_eq_int(result_of(lose_epoll), -EIO);
}

int main(void)
{
        run(test_breaks);
        run(test_cannot_watch);
        run(test_cannot_wait);
        return 0;
}
