/* Children in new user namespaces. */
#include "supervisor/monitor/ids/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/monitor/process/child.h"

/* For a child that only has to run. */
enum { STEP_MS = 5000 };

pid_t userns_fork(unsigned long flags)
{
        int ends[2];
        char byte = 0;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return -errno;
        _cleanup_close_ int read_end = ends[0];
        _cleanup_close_ int write_end = ends[1];
        /* A system call, because fork() takes no flags. The monitor has one thread, so that
         * libc's state stays correct. */
        long pid = syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                if (prctl(PR_SET_DUMPABLE, 1) < 0 || write(write_end, &byte, 1) != 1)
                        _exit(1);
                return 0;
        }
        close(take_fd(write_end));
        if (child_read_in_time(read_end, &byte, 1, STEP_MS) == 1)
                return (pid_t)pid;
        /* It may wait for a byte that will not come. */
        child_kill((pid_t)pid);
        return -ECHILD;
}

static int write_proc(pid_t pid, const char *file, const char *text, struct error *err)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return error_errno(err, errno, "open %s", path);
        int r = fd_write_all(fd, text, strlen(text));
        return r < 0 ? error_errno(err, -r, "write '%s' to %s", text, path) : 0;
}

int userns_map(pid_t pid, uint32_t inside, uid_t outside_uid, gid_t outside_gid, uint32_t count,
               struct error *err)
{
        char map[64];

        /* The file is missing in gVisor, which wants no such promise before it maps a group. */
        struct error why = {};
        int r = write_proc(pid, "setgroups", "deny", &why);
        if (r < 0 && r != -ENOENT)
                return error_set(err, -r, "%s", why.text);
        snprintf(map, sizeof(map), "%u %u %u", inside, outside_uid, count);
        r = write_proc(pid, "uid_map", map, err);
        if (r < 0)
                return r;
        snprintf(map, sizeof(map), "%u %u %u", inside, outside_gid, count);
        return write_proc(pid, "gid_map", map, err);
}
