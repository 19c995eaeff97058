/* Loads a compiled system call filter. */
#include "base/filter-load.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

int filter_load_listening(int fd, int *listener, struct error *err)
{
        /* Not on the stack, which is small between clone and exec; a process loads one filter at a
         * time. */
        static struct sock_filter code[BPF_MAXINSNS];

        ssize_t n = pread(fd, code, sizeof(code), 0);
        if (n < 0)
                return error_errno(err, errno, "read the system call filter");
        if (n == 0 || (size_t)n % sizeof(code[0]) != 0)
                return error_set(err, EINVAL, "the system call filter has %zd bytes", n);

        struct sock_fprog program = {.len = (unsigned short)((size_t)n / sizeof(code[0])),
                                     .filter = code};
        if (listener)
                *listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                         SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
        if ((!listener || *listener < 0) &&
            syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
                return error_errno(err, errno, "load the system call filter");
        return 0;
}

int filter_load(int fd, struct error *err)
{
        return filter_load_listening(fd, NULL, err);
}
