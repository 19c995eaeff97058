/* Short-lived children that answer one question each. */
#include "supervisor/monitor/process/child-task.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/loop.h"
#include "supervisor/monitor/process/child.h"

enum { END_MS = 100, ALARM_EXTRA_SECONDS = 2 };

struct child_task {
        struct child_tasks *tasks;
        struct child_task *next;
        const char *name;
        unsigned int timeout_ms;
        size_t reply_size;
        pid_t pid;
        int pidfd, socket;
        struct event *answer, *deadline, *end;
        child_task_done *done; /* NULL: answered or cancelled, the child is only to be reaped */
        void *data;
};

struct child_tasks {
        struct event_base *base;
        struct children *children;
        struct child_task *first;
};

/* In the child. Nothing that it does on the way out may run handlers of the parent: _exit(). */
_Noreturn static void run_child(const struct child_task_spec *spec, int socket)
{
        int keep[CHILD_TASK_KEEP + 1], fds[CHILD_TASK_FDS];

        setsid();
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        child_hide(spec->name);
        child_reset_signals();
        /* Where a change of ids clears the parent-death signal, this ends a child without a parent.
         */
        alarm(spec->timeout_ms / 1000 + ALARM_EXTRA_SECONDS);
        for (size_t i = 0; i < spec->n_keep; i++)
                keep[i] = spec->keep[i];
        keep[spec->n_keep] = socket;
        child_close_all_but(keep, spec->n_keep + 1);
        void *reply = calloc(1, spec->reply_size);
        if (!reply)
                _exit(1);
        size_t n = spec->run(spec->argument, reply, fds);
        _exit(fd_send(socket, reply, spec->reply_size, fds, n, 0) < 0);
}

/* Returns the child's pid and this end of its socket. */
static pid_t start(const struct child_task_spec *spec, int *ret_socket, struct error *err)
{
        int pair[2];

        assert(spec->n_keep <= CHILD_TASK_KEEP);
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_errno(err, errno, "%s: socketpair", spec->name);
        _cleanup_close_ int ours = pair[0], theirs = pair[1];
        pid_t pid = fork();
        if (pid < 0)
                return error_errno(err, errno, "%s: fork", spec->name);
        if (pid == 0)
                run_child(spec, theirs);
        *ret_socket = take_fd(ours);
        return pid;
}

/* Returns 1 with an answer, 0 before the answer, negative errno if no answer will come. */
static int receive(int socket, const char *name, void *reply, size_t size, int fds[CHILD_TASK_FDS],
                   size_t *n_fds, struct error *err)
{
        *n_fds = CHILD_TASK_FDS;
        ssize_t n = fd_receive(socket, reply, size, fds, n_fds, NULL, MSG_DONTWAIT);
        if (n == -EAGAIN)
                return 0;
        if (n == (ssize_t)size)
                return 1;
        if (n > 0)
                fd_close_many(fds, *n_fds);
        return error_set(err, EIO, "%s: the process ended without an answer", name);
}

static int timed_out(const char *name, unsigned int timeout_ms, struct error *err)
{
        return error_set(err, ETIMEDOUT, "%s: no answer within %u ms", name, timeout_ms);
}

static void task_free(struct child_task *t)
{
        struct event *events[] = {t->answer, t->deadline, t->end};
        int fds[] = {t->pidfd, t->socket};

        for (struct child_task **at = &t->tasks->first; *at; at = &(*at)->next) {
                if (*at == t) {
                        *at = t->next;
                        break;
                }
        }
        loop_free_events(events, ARRAY_SIZE(events));
        fd_close_many(fds, ARRAY_SIZE(fds));
        free(t);
}

static void on_end(evutil_socket_t fd, short what, void *data)
{
        struct child_task *t = data;

        waitpid(t->pid, NULL, 0);
        children_remove(t->tasks->children, t->pid);
        task_free(t);
}

/* Only its end is of interest now. */
static void stop_watching(struct child_task *t)
{
        t->done = NULL;
        event_del(t->answer);
        event_del(t->deadline);
        close(take_fd(t->socket));
}

static void finish(struct child_task *t, const struct error *error, void *reply, int *fds, size_t n)
{
        child_task_done *done = t->done;
        void *data = t->data;

        stop_watching(t);
        /* An answer is the last thing that it sends. */
        child_signal(t->pid, SIGKILL);
        done(data, error, reply, fds, n);
        fd_close_many(fds, n);
}

static void on_answer(evutil_socket_t fd, short what, void *data)
{
        struct child_task *t = data;
        struct error error = {};
        int fds[CHILD_TASK_FDS];
        size_t n = 0;
        _cleanup_free_ void *reply = calloc(1, t->reply_size);

        if (!reply) {
                error_errno(&error, ENOMEM, "%s", t->name);
                finish(t, &error, NULL, NULL, 0);
                return;
        }
        int r = receive(fd, t->name, reply, t->reply_size, fds, &n, &error);
        if (r > 0)
                finish(t, NULL, reply, fds, n);
        else if (r < 0)
                finish(t, &error, NULL, NULL, 0);
}

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
        struct child_task *t = data;
        struct error error = {};

        timed_out(t->name, t->timeout_ms, &error);
        finish(t, &error, NULL, NULL, 0);
}

static int watch(struct child_task *t, struct error *err)
{
        struct event_base *base = t->tasks->base;
        struct timeval after = {.tv_sec = t->timeout_ms / 1000,
                                .tv_usec = t->timeout_ms % 1000 * 1000};

        t->pidfd = pidfd_open(t->pid, 0);
        if (t->pidfd < 0)
                return error_errno(err, errno, "%s: pidfd_open", t->name);
        t->answer = event_new(base, t->socket, EV_READ | EV_PERSIST, on_answer, t);
        t->deadline = evtimer_new(base, on_deadline, t);
        t->end = event_new(base, t->pidfd, EV_READ, on_end, t);
        if (!t->answer || !t->deadline || !t->end || event_add(t->answer, NULL) < 0 ||
            event_add(t->deadline, &after) < 0 || event_add(t->end, NULL) < 0)
                return error_errno(err, ENOMEM, "%s", t->name);
        int r = children_add(t->tasks->children, t->pid);
        return r < 0 ? error_errno(err, -r, "%s", t->name) : 0;
}

int child_task_start(struct child_tasks *tasks, const struct child_task_spec *spec,
                     child_task_done *done, void *data, struct child_task **ret, struct error *err)
{
        struct child_task *t = calloc(1, sizeof(*t));

        if (!t)
                return error_errno(err, ENOMEM, "%s", spec->name);
        *t = (struct child_task){.tasks = tasks,
                                 .next = tasks->first,
                                 .name = spec->name,
                                 .timeout_ms = spec->timeout_ms,
                                 .reply_size = spec->reply_size,
                                 .pidfd = -1,
                                 .socket = -1,
                                 .done = done,
                                 .data = data};
        tasks->first = t;
        t->pid = start(spec, &t->socket, err);
        int r = t->pid < 0 ? t->pid : watch(t, err);
        if (r < 0) {
                if (t->pid > 0) {
                        child_kill(t->pid);
                        children_remove(tasks->children, t->pid);
                }
                task_free(t);
                return r;
        }
        *ret = t;
        return 0;
}

pid_t child_task_pid(const struct child_task *t)
{
        return t->pid;
}

struct child_task *child_task_cancel(struct child_task *t)
{
        if (t && t->done) {
                stop_watching(t);
                child_signal(t->pid, SIGKILL);
        }
        return NULL;
}

/* Kills a child and reaps it, unless the kernel cannot end it now. */
static bool end_child(pid_t pid, int pidfd)
{
        struct pollfd end = {.fd = pidfd, .events = POLLIN};

        child_signal(pid, SIGKILL);
        return poll(&end, 1, END_MS) == 1 && waitpid(pid, NULL, WNOHANG) == pid;
}

int child_tasks_new(struct event_base *base, struct children *children, struct child_tasks **ret,
                    struct error *err)
{
        struct child_tasks *tasks = calloc(1, sizeof(*tasks));

        if (!tasks)
                return error_errno(err, ENOMEM, "tasks");
        *tasks = (struct child_tasks){.base = base, .children = children};
        *ret = tasks;
        return 0;
}

struct child_tasks *child_tasks_free(struct child_tasks *tasks)
{
        if (!tasks)
                return NULL;
        for (struct child_task *t = tasks->first; t; t = t->next)
                child_signal(t->pid, SIGKILL);
        while (tasks->first) {
                struct child_task *t = tasks->first;
                if (end_child(t->pid, t->pidfd))
                        children_remove(tasks->children, t->pid);
                task_free(t);
        }
        free(tasks);
        return NULL;
}

int child_task_run(const struct child_task_spec *spec, void *reply, int fds[CHILD_TASK_FDS],
                   size_t *n_fds, struct error *err)
{
        _cleanup_close_ int socket = -1;
        pid_t pid = start(spec, &socket, err);

        if (pid < 0)
                return pid;
        _cleanup_close_ int pidfd = pidfd_open(pid, 0);
        struct pollfd answer = {.fd = socket, .events = POLLIN};
        int r = poll(&answer, 1, (int)spec->timeout_ms) <= 0
                        ? timed_out(spec->name, spec->timeout_ms, err)
                        : receive(socket, spec->name, reply, spec->reply_size, fds, n_fds, err);
        end_child(pid, pidfd);
        return r < 0 ? r : 0;
}
