/* Loads a compiled system call filter. */
#include "base/filter-load.h"

#include <errno.h>
#include <linux/filter.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns the length of the program, or negative errno. */
static int read_program(int fd, struct sock_filter *code, uint32_t ask_or_allow, struct error *err)
{
        ssize_t n = pread(fd, code, BPF_MAXINSNS * sizeof(code[0]), 0);
        if (n < 0)
                return error_errno(err, errno, "read the system call filter");
        if (n == 0 || (size_t)n % sizeof(code[0]) != 0)
                return error_set(err, EINVAL, "the system call filter has %zd bytes", n);
        int length = (int)((size_t)n / sizeof(code[0]));
        for (int i = 0; i < length; i++) {
                if (code[i].code == (BPF_RET | BPF_K) && code[i].k == FILTER_ASK_OR_ALLOW)
                        code[i].k = ask_or_allow;
        }
        return length;
}

/* Returns the listener, 0 without one, or negative errno. */
static int load(int fd, uint32_t ask_or_allow, unsigned int flags, struct error *err)
{
        /* Not on the stack, which is small between clone and exec; a process loads one filter at a
         * time. */
        static struct sock_filter code[BPF_MAXINSNS];

        int n = read_program(fd, code, ask_or_allow, err);
        if (n < 0)
                return n;
        struct sock_fprog program = {.len = (unsigned short)n, .filter = code};
        int r = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
        return r < 0 ? error_errno(err, errno, "load the system call filter") : r;
}

int filter_load_listening(int fd, bool asks, int *listener, struct error *err)
{
        *listener = load(fd, asks ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW,
                         SECCOMP_FILTER_FLAG_NEW_LISTENER, NULL);
        if (*listener >= 0)
                return 0;
        *listener = -1;
        return filter_load(fd, err);
}

int filter_load(int fd, struct error *err)
{
        int r = load(fd, SECCOMP_RET_ALLOW, 0, err);
        return r < 0 ? r : 0;
}
