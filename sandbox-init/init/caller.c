/* The process whose call init answers. */
#include "sandbox-init/init/caller.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "rpc/sandbox-messages.h"

/* The name of a process, which code chooses, is in the first line of its status with its line ends escaped. */
pid_t caller_process_of(pid_t thread)
{
        char path[32] = "", text[512];

        snprintf(path, sizeof(path), "%d/status", thread);
        int fd = openat(INIT_PROC_FD, path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
        if (fd >= 0)
                close(fd);
        text[n > 0 ? n : 0] = '\0';
        const char *at = strstr(text, "\nTgid:");
        return at ? (pid_t)strtol(at + 6, NULL, 10) : 0;
}

struct caller caller_new(pid_t process)
{
        int pidfd = process > 0 ? (int)syscall(SYS_pidfd_open, process, 0) : -1;

        return (struct caller){pidfd < 0 ? 0 : process, pidfd};
}

void caller_done(struct caller *c)
{
        if (c->process != 0)
                close(c->pidfd);
        c->process = 0;
}

bool caller_is_current(const struct caller *c)
{
        return c->process != 0 && syscall(SYS_pidfd_send_signal, c->pidfd, 0, NULL, 0) == 0;
}

int caller_take_file(const struct caller *c, int fd, struct stat *st)
{
        int own = (int)syscall(SYS_pidfd_getfd, c->pidfd, fd, 0);

        if (own < 0)
                return errno == EBADF || errno == ESRCH ? -EBADF : -ENOLCK;
        /* Without a question to a file system that may not answer. */
        if (fstatat(own, "", st, AT_EMPTY_PATH | AT_STATX_DONT_SYNC) == 0)
                return own;
        close(own);
        return -ENOLCK;
}

int caller_copy_memory(const struct caller *c, uint64_t at, void *data, size_t n, bool writes)
{
        struct iovec here = {data, n}, there = {(void *)at, n}; // NOLINT
        ssize_t r = writes ? process_vm_writev(c->process, &here, 1, &there, 1, 0)
                           : process_vm_readv(c->process, &here, 1, &there, 1, 0);

        return r == (ssize_t)n ? 0 : r < 0 && errno == EPERM ? -ENOLCK : -EFAULT;
}
