/* Acts on the processes of a sandbox. */
#include "supervisor/monitor/template/sandbox-process.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

void sandbox_kill(struct sandbox *s)
{
        if (s->pidfd >= 0)
                syscall(SYS_pidfd_send_signal, s->pidfd, SIGKILL, NULL, 0);
        if (s->cgroup)
                cgroup_kill(s->cgroup);
}

int sandbox_freeze(struct sandbox *s)
{
        return s->cgroup ? cgroup_freeze(s->cgroup, true) : -EOPNOTSUPP;
}

int sandbox_thaw(struct sandbox *s)
{
        return s->cgroup ? cgroup_freeze(s->cgroup, false) : -EOPNOTSUPP;
}

bool sandbox_is_copy(const struct sandbox *s, pid_t pid)
{
        for (size_t i = 0; i < s->n_copies; i++) {
                if (s->copies[i].pid == pid)
                        return true;
        }
        return s->keep_serial != 0 && s->candidate.pid == pid;
}

int sandbox_send_init(struct sandbox *s, const struct init_request *request)
{
        ssize_t n = write(s->control, request, sizeof(*request));

        return n == sizeof(*request) ? 0 : n < 0 ? -errno : -EIO;
}

int sandbox_ask_init(struct sandbox *s, enum init_verb verb, pid_t pid)
{
        return sandbox_send_init(s, &(struct init_request){.verb = verb, .pid = pid});
}

/* NULL: there is none with this pid. */
struct sandbox_copy *sandbox_find_copy(struct sandbox *s, pid_t pid)
{
        for (size_t i = 0; i < s->n_copies; i++) {
                if (s->copies[i].pid == pid)
                        return &s->copies[i];
        }
        return NULL;
}
