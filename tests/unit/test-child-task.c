/* A child answers once, or is killed at its deadline; the event loop never waits for it. */
#include "supervisor/monitor/process/child-task.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/test.h"

static struct event_base *base;
static struct children *children;
static struct child_tasks *tasks;
static struct {
        int count, code, value;
        size_t n_fds;
        char text[16];
} seen;

static void set_up(void)
{
        struct error err = {};

        base = event_base_new();
        check_ok(children_new(&children, &err));
        check_ok(child_tasks_new(base, children, &tasks, &err));
        memset(&seen, 0, sizeof(seen));
}

static void tear_down(void)
{
        tasks = child_tasks_free(tasks);
        children = children_free(children);
        event_base_free(base);
        /* Every child has been reaped. */
        check_eq_int(waitpid(-1, NULL, WNOHANG), -1);
        check_eq_int(errno, ECHILD);
}

static size_t answer(void *argument, void *reply, int fds[CHILD_TASK_FDS])
{
        int ends[2];

        *(int *)reply = *(int *)argument + 1;
        if (pipe(ends) < 0 || write(ends[1], "through", 7) != 7)
                return 0;
        fds[0] = ends[0];
        return 1;
}

static size_t hang(void *argument, void *reply, int fds[CHILD_TASK_FDS])
{
        (void)argument;
        (void)reply;
        (void)fds;
        for (;;)
                pause();
        return 0;
}

static size_t die(void *argument, void *reply, int fds[CHILD_TASK_FDS])
{
        (void)argument;
        (void)reply;
        (void)fds;
        _exit(0);
}

/* Which of the parent's descriptors and settings the child has. */
static size_t look_around(void *argument, void *reply, int fds[CHILD_TASK_FDS])
{
        (void)fds;
        *(int *)reply = fcntl(*(int *)argument, F_GETFD) < 0 && prctl(PR_GET_DUMPABLE) == 0 &&
                        getsid(0) == getpid();
        return 0;
}

static void done(void *data, const struct error *error, void *reply, int fds[CHILD_TASK_FDS],
                 size_t n_fds)
{
        check(data == &seen);
        seen.count++;
        seen.code = error ? error->code : 0;
        seen.value = error ? 0 : *(int *)reply;
        seen.n_fds = n_fds;
        if (n_fds == 1)
                check_eq_int(read(fds[0], seen.text, sizeof(seen.text) - 1), 7);
        event_base_loopbreak(base);
}

static struct child_task_spec spec_of(size_t (*run)(void *, void *, int *), int *argument,
                                      unsigned int timeout_ms)
{
        return (struct child_task_spec){.name = "test",
                                        .reply_size = sizeof(int),
                                        .timeout_ms = timeout_ms,
                                        .run = run,
                                        .argument = argument};
}

static void start(size_t (*run)(void *, void *, int *), int *argument, unsigned int timeout_ms,
                  struct child_task **ret)
{
        struct child_task_spec spec = spec_of(run, argument, timeout_ms);
        struct error err = {};

        check_ok(child_task_start(tasks, &spec, done, &seen, ret, &err));
}

static void test_answer(void)
{
        struct child_task *task;
        int argument = 41;

        set_up();
        start(answer, &argument, 20000, &task);
        event_base_dispatch(base);
        check_eq_int(seen.count, 1);
        check_eq_int(seen.code, 0);
        check_eq_int(seen.value, 42);
        check_eq_int(seen.n_fds, 1);
        check_eq_str(seen.text, "through");
        /* The child's exit is the last event: the loop has no other and returns. */
        event_base_dispatch(base);
        tear_down();
}

static void test_deadline(void)
{
        struct child_task *task;

        set_up();
        start(hang, NULL, 50, &task);
        event_base_dispatch(base);
        check_eq_int(seen.count, 1);
        check_eq_int(seen.code, ETIMEDOUT);
        event_base_dispatch(base);
        tear_down();
}

static void test_end_without_answer(void)
{
        struct child_task *task;

        set_up();
        start(die, NULL, 20000, &task);
        event_base_dispatch(base);
        check_eq_int(seen.count, 1);
        check_eq_int(seen.code, EIO);
        tear_down();
}

static void on_tick(evutil_socket_t fd, short what, void *data)
{
        (void)fd;
        (void)what;
        if (++*(int *)data == 5)
                event_base_loopbreak(base);
}

static void test_loop_serves_meanwhile(void)
{
        struct child_task *task;
        struct timeval every = {.tv_usec = 1000};
        int ticks = 0;

        set_up();
        start(hang, NULL, 600000, &task);
        struct event *tick = event_new(base, -1, EV_PERSIST, on_tick, &ticks);
        event_add(tick, &every);
        event_base_dispatch(base);
        check_eq_int(ticks, 5);
        check_eq_int(seen.count, 0);
        event_free(tick);
        /* Ends the child that still runs. */
        tear_down();
}

static void test_cancel(void)
{
        struct child_task *task;

        set_up();
        start(hang, NULL, 600000, &task);
        check(!child_task_cancel(task));
        event_base_dispatch(base);
        check_eq_int(seen.count, 0);
        check(!child_task_cancel(NULL));
        tear_down();
}

static void test_what_a_child_inherits(void)
{
        struct child_task *task;
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        set_up();
        start(look_around, &fd, 20000, &task);
        event_base_dispatch(base);
        check_eq_int(seen.value, 1);
        /* Control: the child has a descriptor that it must keep. */
        struct child_task_spec spec = spec_of(look_around, &fd, 20000);
        spec.keep[spec.n_keep++] = fd;
        struct error err = {};
        check_ok(child_task_start(tasks, &spec, done, &seen, &task, &err));
        event_base_dispatch(base);
        check_eq_int(seen.value, 0);
        check_eq_int(seen.code, 0);
        close(fd);
        tear_down();
}

static void test_without_a_loop(void)
{
        struct error err = {};
        int argument = 1, reply = 0, fds[CHILD_TASK_FDS];
        size_t n = 0;

        struct child_task_spec spec = spec_of(answer, &argument, 20000);
        check_ok(child_task_run(&spec, &reply, fds, &n, &err));
        check_eq_int(reply, 2);
        check_eq_int(n, 1);
        close(fds[0]);
        spec = spec_of(hang, NULL, 50);
        check_eq_int(child_task_run(&spec, &reply, fds, &n, &err), -ETIMEDOUT);
        spec = spec_of(die, NULL, 20000);
        check_eq_int(child_task_run(&spec, &reply, fds, &n, &err), -EIO);
        check_eq_int(waitpid(-1, NULL, WNOHANG), -1);
}

int main(void)
{
        run(test_answer);
        run(test_deadline);
        run(test_end_without_answer);
        run(test_loop_serves_meanwhile);
        run(test_cancel);
        run(test_what_a_child_inherits);
        run(test_without_a_loop);
        return 0;
}
