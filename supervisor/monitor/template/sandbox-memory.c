/* A sandbox whose memory no control group counts, and that is over its limit. */
#include "supervisor/monitor/template/sandbox-memory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "supervisor/monitor/process/process-cursor.h"
#include "supervisor/monitor/template/sandbox-copy.h"
#include "supervisor/monitor/template/sandbox-process.h"

enum { KILLED_MAX = 256 }; /* takes a millisecond */

const struct sandbox_memory *sandbox_memory(const struct sandbox *s)
{
        return s->memory.proc < 0 ? NULL : &s->memory;
}

static int stat_namespace(int proc, const char *pid, struct stat *ret)
{
        char path[32];

        snprintf(path, sizeof(path), "%s/ns/pid", pid);
        return fstatat(proc, path, ret, 0);
}

int sandbox_open_memory(struct sandbox *s, struct error *err)
{
        char path[64];

        /* PID 1 has covered the template's /proc with its own by now. */
        snprintf(path, sizeof(path), "/proc/%d/root/proc", (int)s->pid);
        s->memory.proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (s->memory.proc < 0)
                return error_errno(err, errno, "open %s", path);
        snprintf(path, sizeof(path), "/proc/%d/net/sockstat", (int)s->pid);
        s->memory.sockets = open(path, O_RDONLY | O_CLOEXEC);
        return s->memory.sockets < 0 ? error_errno(err, errno, "open %s", path) : 0;
}

/* A hostile template can mount another directory over /proc: only processes of this namespace
 * are killed. A process's directory in /proc means it for pidfd_send_signal(2), also when it has
 * ended. */
static void kill_one(int proc, long pid, const struct stat *namespace)
{
        char path[32];
        struct stat of;

        snprintf(path, sizeof(path), "%ld", pid);
        _cleanup_close_ int fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0 && stat_namespace(fd, ".", &of) == 0 && of.st_ino == namespace->st_ino &&
            of.st_dev == namespace->st_dev)
                syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
}

/* All but init and the copies, where they have our id (else EPERM). init does the same, and reaches those
 * too that are being forked; but it waits for a processor together with them, for some hundred
 * milliseconds on a busy machine, in which they grow. */
static void kill_processes(const struct sandbox *s)
{
        _cleanup_(process_cursor_close) struct process_cursor c = process_cursor_open(
                s->memory.proc, ".");
        char init[32];
        struct stat namespace;
        long pid;

        snprintf(init, sizeof(init), "/proc/%d", (int)s->pid);
        if (s->pidfd < 0 || stat_namespace(AT_FDCWD, init, &namespace) < 0)
                return;
        for (int n = 0; n < KILLED_MAX && (pid = process_cursor_next(&c)) > 0; n++) {
                if (pid != 1 && !sandbox_is_copy(s, (pid_t)pid))
                        kill_one(s->memory.proc, pid, &namespace);
        }
}

void sandbox_kill_for_memory(struct sandbox *s)
{
        s->is_out_of_memory = true;
        kill_processes(s);
        if (s->n_copies == 0 || sandbox_restore(s, 0) < 0)
                sandbox_kill(s);
}

bool sandbox_is_out_of_memory(const struct sandbox *s)
{
        return s->is_out_of_memory;
}
