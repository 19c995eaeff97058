/* System calls in a process with a filter, and in a process without one. */
#include <asm/ioctls.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/filter-load.h"
#include "policy/seccomp/filter.h"
#include "tests/unit/test.h"

#define BIT32 (1ull << 32)

/* Each probe is harmless wherever it runs: its arguments are wrong for the call itself,
 * so that without the filter it fails in another way. */

struct probe {
        const char *name;
        long (*call)(void);
        int denied; /* the errno under the filter; negative: the signal that ends it */
};

static long probe_unshare(void)
{
        return syscall(SYS_unshare, 0);
}
static long probe_setns(void)
{
        return syscall(SYS_setns, -1, 0);
}
static long probe_mount(void)
{
        return syscall(SYS_mount, NULL, (void *)-1, NULL, 0, NULL);
}
static long probe_ptrace(void)
{
        return syscall(SYS_ptrace, 1 /* PTRACE_PEEKTEXT */, 999999999, 0, 0);
}
static long probe_personality(void)
{
        return syscall(SYS_personality, 0xffffffff);
}
static long probe_clone3(void)
{
        return syscall(SYS_clone3, NULL, 0);
}
static long probe_clone_user(void)
{
        return syscall(SYS_clone, CLONE_NEWUSER | CLONE_FS, 0, 0, 0, 0);
}
static long probe_clone_user_high(void)
{
        return syscall(SYS_clone, BIT32 | CLONE_NEWUSER | CLONE_FS, 0, 0, 0, 0);
}
static long probe_userfaultfd(void)
{
        return syscall(SYS_userfaultfd, -1);
}
static long probe_io_uring(void)
{
        return syscall(SYS_io_uring_register, -1, 0, NULL, 0);
}
static long probe_splice(void)
{
        return syscall(SYS_splice, -1, NULL, -1, NULL, 1, 0);
}
static long probe_inet(void)
{
        return socket(AF_INET, SOCK_STREAM, 0);
}
static long probe_inet_high(void)
{
        return syscall(SYS_socket, AF_INET | BIT32, SOCK_STREAM, 0);
}
static long probe_netlink(void)
{
        return socket(AF_NETLINK, SOCK_RAW, 0);
}
static long probe_alg(void)
{
        /* The kernel may not support it: the result is EAFNOSUPPORT or a socket. */
        return socket(AF_ALG, SOCK_SEQPACKET, 0);
}
static long probe_vsock(void)
{
        return socket(AF_VSOCK, SOCK_STREAM, 0);
}
static long probe_tiocsti(void)
{
        return syscall(SYS_ioctl, -1, TIOCSTI, "x");
}
static long probe_tiocsti_high(void)
{
        return syscall(SYS_ioctl, -1, BIT32 | TIOCSTI, "x");
}
static long probe_tioclinux(void)
{
        return syscall(SYS_ioctl, -1, BIT32 | 0x541c, "x");
}
static long probe_dumpable(void)
{
        return prctl(PR_SET_DUMPABLE, 99);
}
static long probe_sendfile(void)
{
        return syscall(SYS_sendfile, -1, -1, NULL, 1);
}
static long probe_copy_range(void)
{
        return syscall(SYS_copy_file_range, -1, NULL, -1, NULL, 1, 0);
}
static long probe_mknod(void)
{
        return syscall(SYS_mknodat, -1, "x", S_IFCHR | 0600, 0x103);
}
static long probe_limit_of_another(void)
{
        return syscall(SYS_prlimit64, getpid(), RLIMIT_NOFILE, NULL, NULL);
}
static long probe_oob(void)
{
        return syscall(SYS_sendto, -1, "x", 1, MSG_OOB, NULL, 0);
}
static long probe_handle(void)
{
        return syscall(SYS_name_to_handle_at, -1, "x", NULL, NULL, -1);
}
#ifdef __x86_64__
static long probe_x32(void)
{
        return syscall(0x40000000 | SYS_getpid);
}
static long probe_int80(void)
{
        long r;
        /* 20 is getpid of 32-bit programs */
        __asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
        return r;
}
#endif

static const struct probe probes[] = {
        {"unshare", probe_unshare, EPERM},
        {"setns", probe_setns, EPERM},
        {"mount", probe_mount, EPERM},
        {"ptrace", probe_ptrace, EPERM},
        {"personality", probe_personality, EPERM},
        {"clone3", probe_clone3, ENOSYS},
        {"clone NEWUSER", probe_clone_user, EPERM},
        {"clone NEWUSER, bit 32", probe_clone_user_high, EPERM},
        {"userfaultfd", probe_userfaultfd, ENOSYS},
        {"io_uring_register", probe_io_uring, ENOSYS},
        {"splice", probe_splice, ENOSYS},
        {"AF_INET", probe_inet, EPERM},
        {"AF_INET, bit 32", probe_inet_high, EPERM},
        {"AF_NETLINK", probe_netlink, EPERM},
        {"AF_ALG", probe_alg, EPERM},
        {"AF_VSOCK", probe_vsock, EPERM},
        {"TIOCSTI", probe_tiocsti, EPERM},
        {"TIOCSTI, bit 32", probe_tiocsti_high, EPERM},
        {"TIOCLINUX, bit 32", probe_tioclinux, EPERM},
        {"PR_SET_DUMPABLE", probe_dumpable, EPERM},
        {"sendfile", probe_sendfile, EINVAL},
        {"copy_file_range", probe_copy_range, EXDEV},
        {"mknod", probe_mknod, EPERM},
        {"prlimit64 of a pid", probe_limit_of_another, ENOSYS},
        {"MSG_OOB", probe_oob, EOPNOTSUPP},
        {"name_to_handle_at", probe_handle, EPERM},
#ifdef __x86_64__
        {"x32", probe_x32, -SIGSYS},
        {"int 0x80", probe_int80, -SIGSYS},
#endif
};

/* Runs the call in a child, with a filter if fd >= 0. Returns its errno (0: success), or the negative
 * signal number. */
static int outcome(long (*call)(void), int fd)
{
        int status = 0;

        fflush(stdout);
        pid_t pid = fork();
        check(pid >= 0);
        if (pid == 0) {
                struct error err = {};
                setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
                if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
                    (fd >= 0 && filter_load(fd, &err) < 0))
                        _exit(255);
                errno = 0;
                _exit(call() < 0 ? errno : 0);
        }
        check_eq_int(waitpid(pid, &status, 0), pid);
        if (WIFSIGNALED(status))
                return -WTERMSIG(status);
        check(WEXITSTATUS(status) != 255);
        return WEXITSTATUS(status);
}

static void test_kernel_denies(void)
{
        struct error err = {};

        _cleanup_close_ int fd = filter_compile(FILTER_WORKER, &err);
        check_ok(fd);
        for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
                int with = outcome(probes[i].call, fd), without = outcome(probes[i].call, -1);
                if (with != probes[i].denied)
                        test_fail_("%s: %d under the filter, not %d", probes[i].name, with,
                                   probes[i].denied);
                /* A kernel without the call, or that refuses it itself, says nothing about the
                 * filter. */
                if (without == with)
                        printf("  %s: the same without the filter (%d)\n", probes[i].name, without);
        }
}

/* Controls that must hold on any kernel: the filter, and nothing else, denies these. */
static void test_kernel_allows_without(void)
{
        long (*const calls[])(void) = {probe_unshare,  probe_setns,     probe_personality,
                                       probe_inet,     probe_inet_high, probe_tiocsti,
                                       probe_dumpable, probe_clone3,    probe_clone_user};

        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                int r = outcome(calls[i], -1);
                check(r != EPERM && r != ENOSYS);
        }
}

static long core_limit_stays(void)
{
        struct rlimit before, after;

        if (getrlimit(RLIMIT_CORE, &before) < 0 ||
            setrlimit(RLIMIT_CORE, &(struct rlimit){77, 77}) < 0 ||
            getrlimit(RLIMIT_CORE, &after) < 0)
                return -1;
        errno = ERANGE;
        return before.rlim_cur == after.rlim_cur && before.rlim_max == after.rlim_max ? 0 : -1;
}

static void test_core_limit(void)
{
        struct error err = {};

        _cleanup_close_ int fd = filter_compile(FILTER_WORKER, &err);
        check_ok(fd);
        check_eq_int(outcome(core_limit_stays, fd), 0);
}

/* Filters stack: the worker's on the template's. */
static int template_fd = -1, worker_fd = -1;

static long stack_and_clone3(void)
{
        struct error err = {};

        if (syscall(SYS_clone3, NULL, 0) >= 0 || errno != EINVAL)
                return -1;
        if (filter_load(worker_fd, &err) < 0)
                return -1;
        if (syscall(SYS_clone3, NULL, 0) >= 0 || errno != ENOSYS)
                return -1;
        /* no further filter can be loaded */
        if (filter_load(worker_fd, &err) >= 0 || err.code != ENOSYS)
                return -1;
        return 0;
}

static void test_worker_stacks_on_template(void)
{
        struct error err = {};

        template_fd = filter_compile(FILTER_TEMPLATE, &err);
        check_ok(template_fd);
        worker_fd = filter_compile(FILTER_WORKER, &err);
        check_ok(worker_fd);
        check_eq_int(outcome(stack_and_clone3, template_fd), 0);
        close(template_fd);
        close(worker_fd);
}

int main(void)
{
        run(test_kernel_denies);
        run(test_kernel_allows_without);
        run(test_core_limit);
        run(test_worker_stacks_on_template);
        return 0;
}
