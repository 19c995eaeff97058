/* System calls with errno. */
#include "sandbox-init/freestanding/calls.h"

#include <stdarg.h>

#include "base/error.h"
#include "sandbox-init/raw.h"

static int last_error;

int *__errno_location(void)
{
        return &last_error;
}

static long result(long r)
{
        if (r >= 0 || r < -4095)
                return r;
        last_error = (int)-r;
        return -1;
}

#define CALL(number, a, b, c, d, e, f)                                                             \
        result(raw_call(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f)))

/* All variable arguments are read as long, as the kernel reads them. */
long syscall(long number, ...)
{
        long a[6];
        va_list args;

        va_start(args, number);
        for (int i = 0; i < 6; i++)
                a[i] = va_arg(args, long);
        va_end(args);
        return CALL(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int prctl(int option, ...)
{
        long a[4];
        va_list args;

        va_start(args, option);
        for (int i = 0; i < 4; i++)
                a[i] = va_arg(args, long);
        va_end(args);
        return (int)CALL(SYS_prctl, option, a[0], a[1], a[2], a[3], 0);
}

int fcntl(int fd, int command, ...)
{
        va_list args;

        va_start(args, command);
        long argument = va_arg(args, long);
        va_end(args);
        return (int)CALL(SYS_fcntl, fd, command, argument, 0, 0, 0);
}

int open(const char *path, int flags, ...)
{
        va_list args;

        va_start(args, flags);
        long mode = va_arg(args, long);
        va_end(args);
        return (int)CALL(SYS_openat, AT_FDCWD, path, flags, mode, 0, 0);
}

int openat(int directory, const char *path, int flags, ...)
{
        va_list args;

        va_start(args, flags);
        long mode = va_arg(args, long);
        va_end(args);
        return (int)CALL(SYS_openat, directory, path, flags, mode, 0, 0);
}

int mkdirat(int directory, const char *path, mode_t mode)
{
        return (int)CALL(SYS_mkdirat, directory, path, mode, 0, 0, 0);
}

int close(int fd)
{
        return (int)CALL(SYS_close, fd, 0, 0, 0, 0, 0);
}

ssize_t read(int fd, void *data, size_t n)
{
        return CALL(SYS_read, fd, data, n, 0, 0, 0);
}

ssize_t write(int fd, const void *data, size_t n)
{
        return CALL(SYS_write, fd, data, n, 0, 0, 0);
}

ssize_t pread(int fd, void *data, size_t n, off_t offset)
{
        return CALL(SYS_pread64, fd, data, n, offset, 0, 0);
}

off_t lseek(int fd, off_t offset, int whence)
{
        return CALL(SYS_lseek, fd, offset, whence, 0, 0, 0);
}

int dup2(int from, int to)
{
        /* dup3() fails with equal descriptors; dup2() returns them. */
        if (from == to)
                return fcntl(from, F_GETFD, 0) < 0 ? -1 : to;
        return (int)CALL(SYS_dup3, from, to, 0, 0, 0, 0);
}

int pipe2(int ends[2], int flags)
{
        return (int)CALL(SYS_pipe2, ends, flags, 0, 0, 0, 0);
}

int memfd_create(const char *name, unsigned flags)
{
        return (int)CALL(SYS_memfd_create, name, flags, 0, 0, 0, 0);
}

int chdir(const char *path)
{
        return (int)CALL(SYS_chdir, path, 0, 0, 0, 0, 0);
}

int fchdir(int fd)
{
        return (int)CALL(SYS_fchdir, fd, 0, 0, 0, 0, 0);
}

int socket(int family, int type, int protocol)
{
        return (int)CALL(SYS_socket, family, type, protocol, 0, 0, 0);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
        return CALL(SYS_sendmsg, fd, message, flags, 0, 0, 0);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
        return CALL(SYS_recvmsg, fd, message, flags, 0, 0, 0);
}

int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
        struct timespec timeout = {.tv_sec = timeout_ms / 1000,
                                   .tv_nsec = timeout_ms % 1000 * 1000000L};

        return (int)CALL(SYS_ppoll, fds, n, timeout_ms < 0 ? NULL : &timeout, NULL, 0, 0);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t n)
{
        return (int)CALL(SYS_setsockopt, fd, level, name, value, n, 0);
}

int ioctl(int fd, unsigned long request, ...)
{
        va_list args;

        va_start(args, request);
        long argument = va_arg(args, long);
        va_end(args);
        return (int)CALL(SYS_ioctl, fd, request, argument, 0, 0, 0);
}

int mount(const char *source, const char *target, const char *type, unsigned long flags,
          const void *data)
{
        return (int)CALL(SYS_mount, source, target, type, flags, data, 0);
}

int umount2(const char *target, int flags)
{
        return (int)CALL(SYS_umount2, target, flags, 0, 0, 0, 0);
}

int fsopen(const char *type, unsigned flags)
{
        return (int)CALL(SYS_fsopen, type, flags, 0, 0, 0, 0);
}

int fsconfig(int fd, unsigned command, const char *key, const void *value, int aux)
{
        return (int)CALL(SYS_fsconfig, fd, command, key, value, aux, 0);
}

int fsmount(int fd, unsigned flags, unsigned attributes)
{
        return (int)CALL(SYS_fsmount, fd, flags, attributes, 0, 0, 0);
}

int open_tree(int directory, const char *path, unsigned flags)
{
        return (int)CALL(SYS_open_tree, directory, path, flags, 0, 0, 0);
}

int move_mount(int from, const char *from_path, int to, const char *to_path, unsigned flags)
{
        return (int)CALL(SYS_move_mount, from, from_path, to, to_path, flags, 0);
}

int mount_setattr(int directory, const char *path, unsigned flags, struct mount_attr *attributes,
                  size_t n)
{
        return (int)CALL(SYS_mount_setattr, directory, path, flags, attributes, n, 0);
}

int getrlimit(__rlimit_resource_t resource, struct rlimit *ret)
{
        return (int)CALL(SYS_prlimit64, 0, resource, 0, ret, 0, 0);
}

int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
        return (int)CALL(SYS_prlimit64, 0, resource, limit, 0, 0, 0);
}

int setpgid(pid_t pid, pid_t group)
{
        return (int)CALL(SYS_setpgid, pid, group, 0, 0, 0, 0);
}

pid_t setsid(void)
{
        return (pid_t)CALL(SYS_setsid, 0, 0, 0, 0, 0, 0);
}

int setpriority(__priority_which_t which, id_t who, int nice)
{
        return (int)CALL(SYS_setpriority, which, who, nice, 0, 0, 0);
}

int execveat(int directory, const char *path, char *const arguments[], char *const environment[],
             int flags)
{
        return (int)CALL(SYS_execveat, directory, path, arguments, environment, flags, 0);
}

_Noreturn void _exit(int status)
{
        for (;;)
                raw_call(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

static _Noreturn void exit_with(const char *text, size_t n)
{
        raw_call(SYS_write, STDERR_FILENO, raw_pointer(text), (long)n, 0, 0, 0);
        raw_call(SYS_kill, raw_call(SYS_getpid, 0, 0, 0, 0, 0, 0), SIGABRT, 0, 0, 0, 0);
        _exit(127);
}

_Noreturn void __assert_fail(const char *what, const char *file, unsigned line,
                             const char *function);
_Noreturn void __assert_fail(const char *what, const char *file, unsigned line,
                             const char *function)
{
        struct error error = {};

        error_set(&error, EINVAL, "%s:%u: %s: assertion '%s' failed\n", file, line, function, what);
        exit_with(error.text, __builtin_strlen(error.text));
}

/* The canary itself is where the compiler expects it: in the thread's control block on x86-64, by
 * the same convention in every libc; elsewhere here. */
_Noreturn void __stack_chk_fail(void);
_Noreturn void __stack_chk_fail(void)
{
        static const char text[] = "cloister: stack smashing detected\n";

        exit_with(text, sizeof(text) - 1);
}

#if !defined(__x86_64__)
uintptr_t __stack_chk_guard = (uintptr_t)0x6b0cf2a85d1e9700;
#endif
