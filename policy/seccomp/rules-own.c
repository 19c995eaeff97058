/* The filters of Cloister's own processes: init, stub, image reader and broker. */
#include "policy/seccomp/rules-own.h"

#include <asm/ioctls.h>
#include <fcntl.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

const struct filter_rule filter_init_all[] = {
        {"read write close ppoll poll wait4 waitid kill getpid", ALLOW},
        {"rt_sigaction rt_sigprocmask rt_sigreturn rt_sigtimedwait restart_syscall", ALLOW},
        {"exit exit_group", ALLOW},
        {"lseek getdents64", ALLOW}, /* of a proc, ns_last_pid, and directories in /workspace */
        {"openat", ALLOW, {CLEAR(2, O_ACCMODE | O_CREAT | O_TRUNC)}},
        {"newfstatat clock_gettime", ALLOW},
        END_OF_RULES,
};

const struct filter_rule filter_stub_all[] = {
        {"read exit exit_group rt_sigreturn", ALLOW},
        END_OF_RULES,
};

/*
 * The image reader opens files for reading, answers on its socket, and exits. It creates no process,
 * no socket and no executable memory.
 */
const struct filter_rule filter_reader_all[] = {
        {"openat", ALLOW, {CLEAR(2, O_ACCMODE | O_CREAT | O_TRUNC)}},
        {"read pread64 lseek close utimensat stat lstat fstat newfstatat statx", ALLOW},
        {"brk munmap mremap madvise futex getrandom sigaltstack rt_sigprocmask rt_sigreturn exit "
         "exit_group",
         ALLOW},
        {"mmap", ALLOW, {CLEAR(2, PROT_EXEC)}},
        {"mprotect", ALLOW, {CLEAR(2, PROT_EXEC)}},
        {"fcntl", ALLOW, {EQUAL(1, F_DUPFD_CLOEXEC)}},
        {"fcntl", ALLOW, {EQUAL(1, F_OFD_SETLK)}},
        {"sendmsg", ALLOW, {CLEAR(2, MSG_DENIED)}},
        END_OF_RULES,
};

/*
 * The broker parses untrusted bytes. It starts no process: it has no execve, and clone for threads
 * only. It creates no AF_UNIX socket, which could connect to abstract names of the host.
 */
const struct filter_rule filter_broker_calls[] = {
        {"brk mmap munmap mremap mprotect madvise membarrier", ALLOW},
        {"exit exit_group set_tid_address set_robust_list rseq futex futex_waitv futex_wait "
         "futex_wake futex_requeue arch_prctl getpid getppid gettid getuid geteuid getgid getegid "
         "getrusage getrlimit times uname sysinfo getcpu sched_yield sched_getaffinity "
         "sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min "
         "getpriority restart_syscall umask",
         ALLOW},
        {"kill tgkill rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend "
         "rt_sigtimedwait sigaltstack signalfd signalfd4",
         ALLOW},
        {"clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time timerfd_create "
         "timerfd_gettime timerfd_settime",
         ALLOW},
        {"read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close "
         "close_range dup dup2 dup3 fcntl flock fsync fdatasync ftruncate fallocate fadvise64 pipe "
         "pipe2 eventfd eventfd2 memfd_create poll ppoll select pselect6 epoll_create "
         "epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2",
         ALLOW},
        {"open openat openat2 access faccessat faccessat2 stat fstat lstat newfstatat statx statfs "
         "fstatfs readlink readlinkat getcwd getdents64 mkdir mkdirat rmdir unlink unlinkat rename "
         "renameat renameat2 linkat fchmod fchmodat utimensat",
         ALLOW},
        {"bind listen accept accept4 getsockname getpeername getsockopt shutdown", ALLOW},
        {"getrandom", ALLOW},
        {"execve execveat fork vfork ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd "
         "setns unshare mount umount2 pivot_root chroot bpf perf_event_open keyctl add_key "
         "request_key personality",
         FAIL(EPERM)},
        END_OF_RULES,
};

const struct filter_rule filter_broker_arguments[] = {
        {"clone", ALLOW, {MASKED(0, CLONE_NAMESPACES | CLONE_THREAD, CLONE_THREAD)}},
        {"clone", FAIL(EPERM), {CLEAR(0, CLONE_THREAD)}},

        {"socketpair", ALLOW, {EQUAL(0, AF_UNIX), MASKED(1, 0xf, SOCK_STREAM)}},
        {"sendto recvfrom sendmmsg recvmmsg", ALLOW, {CLEAR(3, MSG_DENIED)}},
        {"sendmsg recvmsg", ALLOW, {CLEAR(2, MSG_DENIED)}},

        IOCTL(FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, TCGETS, TIOCGWINSZ),

        PRCTL(PR_SET_NAME, PR_GET_NAME, PR_SET_VMA, PR_GET_DUMPABLE, PR_GET_NO_NEW_PRIVS,
              PR_GET_SECCOMP),

        /* Reads any limit of its own; sets RLIMIT_NOFILE. */
        {"prlimit64", ALLOW, {EQUAL(0, 0), IS_NULL(2)}},
        {"prlimit64", ALLOW, {EQUAL(0, 0), EQUAL(1, RLIMIT_NOFILE), NOT_NULL(2)}},
        END_OF_RULES,
};

/* Without servers that are reached by HTTP: it reaches nothing but what it was given. */
const struct filter_rule filter_broker_alone[] = {
        {"socket connect", FAIL(EPERM)},
        END_OF_RULES,
};

/* Connections to the internet, and what the resolver of libc needs. */
const struct filter_rule filter_internet[] = {
        {"connect", ALLOW},
        INTERNET(AF_INET),
        INTERNET(AF_INET6),
        SOCKET(AF_NETLINK, SOCK_RAW, 0), /* NETLINK_ROUTE: getaddrinfo() lists the addresses */
        {"socket", FAIL(EPERM), {EQUAL(0, AF_UNIX)}},
        END_OF_RULES,
};

/*
 * The proxy of sessions relays untrusted bytes. It starts no process, opens files for reading only, maps
 * nothing executable, and listens nowhere: its listeners are given to it.
 */
const struct filter_rule filter_egress_calls[] = {
        {"brk munmap mremap madvise membarrier", ALLOW},
        {"mmap", ALLOW, {CLEAR(2, PROT_EXEC)}},
        {"mprotect", ALLOW, {CLEAR(2, PROT_EXEC)}},
        {"exit exit_group set_robust_list rseq futex getpid gettid getuid geteuid getgid getegid "
         "getrlimit uname sysinfo sched_yield sched_getaffinity restart_syscall",
         ALLOW},
        {"rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack tgkill", ALLOW},
        {"clock_gettime clock_nanosleep nanosleep gettimeofday time", ALLOW},
        {"read write readv writev pread64 lseek close fcntl pipe2 eventfd eventfd2 poll ppoll select "
         "pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2",
         ALLOW},
        {"access faccessat faccessat2 stat fstat lstat newfstatat statx readlink readlinkat",
         ALLOW},
        {"open", ALLOW, {CLEAR(1, O_ACCMODE | O_CREAT | O_TRUNC)}},
        {"openat", ALLOW, {CLEAR(2, O_ACCMODE | O_CREAT | O_TRUNC)}},
        {"bind accept accept4 getsockname getpeername getsockopt shutdown getrandom", ALLOW},
        {"sendto recvfrom sendmmsg recvmmsg", ALLOW, {CLEAR(3, MSG_DENIED)}},
        {"sendmsg recvmsg", ALLOW, {CLEAR(2, MSG_DENIED)}},
        {"setsockopt", ALLOW, {EQUAL(1, IPPROTO_TCP), EQUAL(2, TCP_NODELAY)}},
        {"setsockopt", ALLOW, {EQUAL(1, IPPROTO_IP), EQUAL(2, IP_RECVERR)}},
        {"setsockopt", ALLOW, {EQUAL(1, IPPROTO_IPV6), EQUAL(2, IPV6_RECVERR)}},
        {"clone", ALLOW, {MASKED(0, CLONE_NAMESPACES | CLONE_THREAD, CLONE_THREAD)}},
        IOCTL(FIONREAD, FIONBIO),
        PRCTL(PR_SET_NAME, PR_SET_VMA),
        {"prlimit64", ALLOW, {EQUAL(0, 0), IS_NULL(2)}},
        END_OF_RULES,
};
