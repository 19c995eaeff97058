/*
 * The filter of the guest and of the template that it is cloned from.
 *
 * It allows the calls that CPython, its standard library, numpy and node were observed to make,
 * without those that have an alternative and a history of kernel bugs. Denied calls fail with an
 * errno that programs handle: sendfile and copy_file_range fail as on a file system without them, so
 * that shutil, cp and node fall back to read and write.
 */
#include "policy/seccomp/rules-guest.h"

#include <linux/fs.h>
#include <linux/memfd.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif
#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif
#define TERMIOS2        44 /* sizeof(struct termios2), part of the four requests' numbers */
#define GET_TERMIOS2    _IOC(_IOC_READ, 'T', 0x2a, TERMIOS2) /* TCGETS2 */
#define SET_TERMIOS2(n) _IOC(_IOC_WRITE, 'T', (n), TERMIOS2) /* 0x2b: TCSETS2; TCSETSW2, TCSETSF2 */

const struct filter_rule filter_guest_calls[] = {
        /* memory */
        {"brk munmap mremap mprotect madvise msync mincore mlock mlock2 munlock membarrier "
         "pkey_alloc pkey_free pkey_mprotect mseal map_shadow_stack",
         ALLOW},
        /* threads and processes */
        {"fork vfork execve execveat exit exit_group wait4 waitid set_tid_address set_robust_list "
         "get_robust_list rseq futex futex_wait futex_wake futex_requeue futex_waitv arch_prctl "
         "getpid getppid gettid getpgrp getpgid setpgid getsid setsid getuid geteuid getgid "
         "getegid "
         "getresuid getresgid getgroups capget getrusage getrlimit times uname sysinfo getcpu "
         "sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_getscheduler "
         "sched_get_priority_max sched_get_priority_min sched_rr_get_interval sched_getattr "
         "getpriority setpriority umask restart_syscall pause",
         ALLOW},
        /* signals: limited by the pid namespace */
        {"kill tgkill tkill rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend "
         "rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo sigaltstack signalfd signalfd4 "
         "pidfd_open pidfd_send_signal",
         ALLOW},
        /* time */
        {"clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time alarm getitimer "
         "setitimer timer_create timer_delete timer_getoverrun timer_gettime timer_settime "
         "timerfd_create timerfd_gettime timerfd_settime",
         ALLOW},
        /* descriptors */
        {"read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close "
         "close_range dup dup2 dup3 flock fsync fdatasync sync_file_range fadvise64 "
         "readahead "
         "ftruncate fallocate pipe pipe2 eventfd eventfd2 poll ppoll select pselect6 "
         "epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 inotify_init "
         "inotify_init1 inotify_add_watch inotify_rm_watch",
         ALLOW},
        /* files */
        {"open openat openat2 creat access faccessat faccessat2 stat fstat lstat newfstatat statx "
         "statfs fstatfs readlink readlinkat getcwd chdir fchdir getdents getdents64 mkdir mkdirat "
         "rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat chmod "
         "fchmod "
         "fchmodat fchmodat2 chown fchown lchown fchownat utime utimes utimensat futimesat "
         "truncate "
         "getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr",
         ALLOW},
        /* sockets, of the families in policy/seccomp/rules-sockets.c */
        {"bind connect listen accept accept4 getsockname getpeername getsockopt shutdown", ALLOW},
        {"getrandom", ALLOW},

        /* As on file systems that lack them: programs fall back. */
        {"sendfile", FAIL(EINVAL)},
        {"copy_file_range", FAIL(EXDEV)},
        {"setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr", FAIL(EOPNOTSUPP)},

        /* Old calls, of which programs expect EPERM rather than ENOSYS. */
        {"ptrace process_vm_readv process_vm_writev kcmp", FAIL(EPERM)},
        {"keyctl add_key request_key", FAIL(EPERM)},
        {"bpf perf_event_open fanotify_init fanotify_mark", FAIL(EPERM)},
        {"init_module finit_module delete_module kexec_load kexec_file_load", FAIL(EPERM)},
        {"reboot swapon swapoff acct quotactl nfsservctl vhangup lookup_dcookie syslog",
         FAIL(EPERM)},
        {"iopl ioperm modify_ldt uselib personality", FAIL(EPERM)},
        {"name_to_handle_at open_by_handle_at", FAIL(EPERM)},
        {"settimeofday clock_settime clock_adjtime adjtimex stime", FAIL(EPERM)},
        {"setuid setgid setreuid setregid setfsuid setfsgid", FAIL(EPERM)},
        {"sched_setparam sched_setattr ioprio_set mlockall", FAIL(EPERM)},
        END_OF_RULES,
};

/* Setting limits: some resources, never RLIMIT_CORE. */
/* clang-format off */
#define RLIMIT_WRITE(bits, want) \
        RULE("setrlimit", ALLOW, MASKED(0, bits, want)), \
        RULE("prlimit64", ALLOW, EQUAL(0, 0), MASKED(1, bits, want))
/* clang-format on */

const struct filter_rule filter_guest_arguments[] = {
        /* Terminals and descriptors. All other requests fail, TIOCSTI and TIOCLINUX (CVE-2017-5226,
         * CVE-2023-28100) with EPERM. */
        IOCTL(TCGETS, TCSETS, TCSETSW, TCSETSF, GET_TERMIOS2, SET_TERMIOS2(0x2b),
              SET_TERMIOS2(0x2c), SET_TERMIOS2(0x2d), TCSBRK, TCXONC, TCFLSH, TIOCSCTTY, TIOCNOTTY,
              TIOCGSID, TIOCGPGRP, TIOCSPGRP, TIOCOUTQ, TIOCGWINSZ, TIOCSWINSZ, TIOCGPTN,
              TIOCSPTLCK, TIOCGPTPEER, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, FIOASYNC, SIOCGIFNAME,
              SIOCGIFCONF, SIOCGIFFLAGS, SIOCGIFADDR, SIOCGIFINDEX),
        {"ioctl", FAIL(EPERM), {EQUAL(1, TIOCSTI)}},
        {"ioctl", FAIL(EPERM), {EQUAL(1, 0x541c)}}, /* TIOCLINUX */
        {"ioctl", FAIL(EOPNOTSUPP), {EQUAL(1, FICLONE)}},
        {"ioctl", FAIL(EOPNOTSUPP), {EQUAL(1, FICLONERANGE)}},
        {"ioctl", FAIL(ENOTTY), {EQUAL(1, FS_IOC_GETFLAGS)}},

        /* No leases and no F_NOTIFY: a session could delay by the one, and observe by the other, what
         * other sessions read of the image that they share. No F_SETPIPE_SZ: the pipes of output count for
         * the monitor's user. */
        {"fcntl", ALLOW, {MASKED(1, ~63u, 0)}},
        {"fcntl", ALLOW, {EQUAL(1, F_GETLEASE)}},
        {"fcntl", ALLOW, {EQUAL(1, F_SETLEASE + 3)}}, /* F_DUPFD_QUERY */
        {"fcntl", ALLOW, {MASKED(1, ~1u, F_SETLEASE + 4)}},
        {"fcntl", ALLOW, {EQUAL(1, F_DUPFD_CLOEXEC)}},
        {"fcntl", ALLOW, {MASKED(1, ~7u, F_SETLEASE + 8)}},
        {"fcntl", FAIL(EINVAL), {EQUAL(1, F_SETLEASE)}},
        {"fcntl", FAIL(EINVAL), {EQUAL(1, F_NOTIFY)}},
        {"fcntl", FAIL(EPERM), {EQUAL(1, F_SETPIPE_SZ)}},

        {"sendto recvfrom sendmmsg recvmmsg", ALLOW, {CLEAR(3, MSG_DENIED)}},
        {"sendto recvfrom sendmmsg recvmmsg", FAIL(EOPNOTSUPP), {SET(3, MSG_OOB)}},
        {"sendto recvfrom sendmmsg recvmmsg",
         FAIL(EOPNOTSUPP),
         {MASKED(3, MSG_DENIED, MSG_ZEROCOPY)}},
        {"sendmsg recvmsg", ALLOW, {CLEAR(2, MSG_DENIED)}},
        {"sendmsg recvmsg", FAIL(EOPNOTSUPP), {SET(2, MSG_OOB)}},
        {"sendmsg recvmsg", FAIL(EOPNOTSUPP), {MASKED(2, MSG_DENIED, MSG_ZEROCOPY)}},

        /* Only the caller's own limits. RLIMIT_CORE can be read; setting it returns 0 and has no
         * effect. The set-up gave it the value 1, with which the kernel writes no core file and
         * starts no handler of core_pattern; with 0 it would start the handler. */
        RLIMIT_WRITE(~3u, 0),
        RLIMIT_WRITE(~0u, 5),
        RLIMIT_WRITE(~1u, 6),
        RLIMIT_WRITE(~7u, 8),
        {"prlimit64", ALLOW, {EQUAL(0, 0), EQUAL(1, RLIMIT_CORE), IS_NULL(2)}},
        {"setrlimit", FAIL(0), {EQUAL(0, RLIMIT_CORE)}},
        {"prlimit64", FAIL(0), {EQUAL(0, 0), EQUAL(1, RLIMIT_CORE), NOT_NULL(2)}},
        END_OF_RULES,
};

/* Huge pages come from a pool of the host, which no limit of a sandbox counts. Without a pool the
 * kernel answers ENOMEM too. */
const struct filter_rule filter_memory_all[] = {
        {"mmap", ALLOW, {CLEAR(3, MAP_HUGETLB)}},
        {"mmap", FAIL(ENOMEM), {SET(3, MAP_HUGETLB)}},
        {"memfd_create", ALLOW, {CLEAR(1, MFD_HUGETLB)}},
        END_OF_RULES,
};

/* Without a control group the monitor counts the memory of a session's processes. Pages of a memfd
 * and of a shared anonymous mapping can be in no process and stay, so that neither can be made:
 * shared memory is a file in /dev/shm, whose size is limited. RLIMIT_DATA does not count a mapping
 * that grows down. */
const struct filter_rule filter_memory_counted[] = {
        {"mmap", ALLOW, {CLEAR(3, MAP_HUGETLB | MAP_GROWSDOWN | MAP_SHARED)}},
        {"mmap", ALLOW, {CLEAR(3, MAP_HUGETLB | MAP_GROWSDOWN | MAP_ANONYMOUS)}},
        {"mmap", FAIL(ENOMEM), {SET(3, MAP_HUGETLB)}},
        {"mmap", FAIL(EPERM), {MASKED(3, MAP_HUGETLB | MAP_GROWSDOWN, MAP_GROWSDOWN)}},
        {"mmap",
         FAIL(EPERM),
         {MASKED(3, MAP_HUGETLB | MAP_SHARED | MAP_ANONYMOUS, MAP_SHARED | MAP_ANONYMOUS)}},
        END_OF_RULES,
};

const struct filter_rule filter_worker_only[] = {
        /* No new namespaces. A filter cannot read the flags of clone3, which are in memory: it fails
         * with ENOSYS, and libc uses clone. */
        {"clone", ALLOW, {CLEAR(0, CLONE_NAMESPACES)}},
        {"clone", FAIL(EPERM), {SET(0, CLONE_NEWNS)}},
        {"clone", FAIL(EPERM), {SET(0, CLONE_NEWCGROUP)}},
        {"clone", FAIL(EPERM), {SET(0, CLONE_NEWUTS)}},
        {"clone", FAIL(EPERM), {SET(0, CLONE_NEWIPC)}},
        {"clone", FAIL(EPERM), {SET(0, CLONE_NEWUSER)}},
        {"clone", FAIL(EPERM), {SET(0, CLONE_NEWPID)}},
        {"clone", FAIL(EPERM), {SET(0, CLONE_NEWNET)}},
        {"unshare setns", FAIL(EPERM)},
        {"mount umount2 pivot_root chroot", FAIL(EPERM)},
        {"setresuid setresgid setgroups capset", FAIL(EPERM)},
        {"sethostname setdomainname sched_setscheduler", FAIL(EPERM)},

        /* Only FIFOs. The file types that differ from S_IFIFO in these bits get EPERM. */
        {"mknod", ALLOW, {MASKED(1, S_IFMT, S_IFIFO)}},
        {"mknod", FAIL(EPERM), {CLEAR(1, S_IFIFO)}},
        {"mknod", FAIL(EPERM), {SET(1, S_IFCHR)}},
        {"mknod", FAIL(EPERM), {SET(1, S_IFDIR)}},
        {"mknod", FAIL(EPERM), {SET(1, S_IFREG)}},
        {"mknodat", ALLOW, {MASKED(2, S_IFMT, S_IFIFO)}},
        {"mknodat", FAIL(EPERM), {CLEAR(2, S_IFIFO)}},
        {"mknodat", FAIL(EPERM), {SET(2, S_IFCHR)}},
        {"mknodat", FAIL(EPERM), {SET(2, S_IFDIR)}},
        {"mknodat", FAIL(EPERM), {SET(2, S_IFREG)}},

        PRCTL(PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME,
              PR_GET_SECCOMP, PR_CAPBSET_READ, PR_SET_TIMERSLACK, PR_GET_TIMERSLACK,
              PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS,
              PR_GET_NO_NEW_PRIVS, PR_SET_THP_DISABLE, PR_SET_VMA),
        {"prctl",
         FAIL(EPERM),
         {EQUAL(0, 0)},
         VALUES(PR_SET_DUMPABLE, PR_SET_MM, PR_SET_SECCOMP, PR_SET_PTRACER, PR_SET_SPECULATION_CTRL,
                PR_SET_SECUREBITS, PR_CAPBSET_DROP)},
        END_OF_RULES,
};

/* The calls that set a session up, in the order in which the template and the new PID 1 make them.
 * The image's code runs under this filter too, in the template, with capabilities in its own user
 * namespace only. */
const struct filter_rule filter_template_only[] = {
        /* take the ids of the session, clone PID 1 into new namespaces */
        {"setresuid setresgid setgroups capset", ALLOW},
        {"clone clone3", ALLOW},
        {"unshare", ALLOW, {EQUAL(0, CLONE_NEWNET)}},    /* of the next session */
        {"unshare", ALLOW, {EQUAL(0, CLONE_NEWCGROUP)}}, /* when PID 1 is in its cgroup */
        {"sched_setscheduler", ALLOW},
        /* mounts: can be added and copied; existing ones cannot be moved, changed or removed, so
         * that a hostile image cannot write to a directory that is mounted read-only */
        {"fsopen fsconfig fsmount move_mount open_tree", ALLOW},
        {"mount", ALLOW, {EQUAL(3, MS_REC | MS_PRIVATE)}},
        {"mount", FAIL(EPERM), {CLEAR(3, MS_REC)}},
        {"mount", FAIL(EPERM), {CLEAR(3, MS_PRIVATE)}},
        {"mount_setattr umount2 pivot_root chroot", FAIL(EPERM)},
        {"sethostname setdomainname", ALLOW},
        {"mknod", ALLOW, {MASKED(1, S_IFMT, S_IFIFO)}},
        {"mknodat", ALLOW, {MASKED(2, S_IFMT, S_IFIFO)}},
        /* confinement; no listener, no SECCOMP_FILTER_FLAG_SPEC_ALLOW */
        {"seccomp",
         ALLOW,
         {EQUAL(0, SECCOMP_SET_MODE_FILTER), CLEAR(1, ~SECCOMP_FILTER_FLAG_TSYNC)}},
        {"landlock_create_ruleset landlock_add_rule landlock_restrict_self", ALLOW},
        PRCTL(PR_SET_SECCOMP, PR_GET_SECCOMP, PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS,
              PR_SET_DUMPABLE, PR_GET_DUMPABLE, PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_SET_NAME,
              PR_GET_NAME, PR_SET_KEEPCAPS, PR_GET_KEEPCAPS, PR_SET_SECUREBITS, PR_GET_SECUREBITS,
              PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_SET_SPECULATION_CTRL,
              PR_SET_TIMERSLACK, PR_GET_TIMERSLACK, PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER,
              PR_SET_THP_DISABLE, PR_SET_VMA),
        END_OF_RULES,
};

const struct filter_rule filter_template_loopback[] = {
        IOCTL(SIOCSIFFLAGS), /* brings lo up; needs a capability, which a worker lacks */
        END_OF_RULES,
};

/* ---- the sockets that a guest may create, and the options that it may set ---- */

/* clang-format off */
#define OPTION(level, ...) \
        {"setsockopt", ALLOW, {EQUAL(1, level), EQUAL(2, 0)}, VALUES(__VA_ARGS__)}
/* clang-format on */

/* AF_UNIX, protocol 0, of its three types. Other families up to 63 get EPERM, by the bits in which
 * they differ from AF_UNIX. */
const struct filter_rule filter_sockets_unix[] = {
        SOCKET(AF_UNIX, SOCK_STREAM, 0),
        SOCKET(AF_UNIX, SOCK_DGRAM, 0),
        SOCKET(AF_UNIX, SOCK_SEQPACKET, 0),
        {"socket", FAIL(EPERM), {CLEAR(0, 1)}},
        {"socket", FAIL(EPERM), {SET(0, 2)}},
        {"socket", FAIL(EPERM), {SET(0, 4)}},
        {"socket", FAIL(EPERM), {SET(0, 8)}},
        {"socket", FAIL(EPERM), {SET(0, 16)}},
        {"socket", FAIL(EPERM), {SET(0, 32)}},
        {"socketpair", ALLOW, {EQUAL(0, AF_UNIX)}},
        END_OF_RULES,
};

/* EPERM for all families up to 63 but 1 (unix), 2 (inet) and 10 (inet6). */
const struct filter_rule filter_sockets_loopback[] = {
        SOCKET(AF_UNIX, SOCK_STREAM, 0),
        SOCKET(AF_UNIX, SOCK_DGRAM, 0),
        SOCKET(AF_UNIX, SOCK_SEQPACKET, 0),
        INTERNET(AF_INET),
        INTERNET(AF_INET6),
        {"socket", FAIL(EPERM), {EQUAL(0, 0)}},
        {"socket", FAIL(EPERM), {MASKED(0, 3, 3)}},
        {"socket", FAIL(EPERM), {MASKED(0, 8 | 2, 8)}},
        {"socket", FAIL(EPERM), {SET(0, 4)}},
        {"socket", FAIL(EPERM), {SET(0, 16)}},
        {"socket", FAIL(EPERM), {SET(0, 32)}},
        {"socket", FAIL(EPERM), {EQUAL(0, AF_INET), MASKED(1, 0xf, SOCK_RAW)}},
        {"socket", FAIL(EPERM), {EQUAL(0, AF_INET6), MASKED(1, 0xf, SOCK_RAW)}},
        {"socketpair", ALLOW, {EQUAL(0, AF_UNIX)}},
        END_OF_RULES,
};

/* Datagram sockets of a pair could send to any name in a mounted directory; those of the other two
 * types cannot be connected again. */
const struct filter_rule filter_sockets_pairs[] = {
        {"socket", FAIL(EPERM)},
        {"socketpair", ALLOW, {EQUAL(0, AF_UNIX), MASKED(1, 0xf, SOCK_STREAM)}},
        {"socketpair", ALLOW, {EQUAL(0, AF_UNIX), MASKED(1, 0xf, SOCK_SEQPACKET)}},
        END_OF_RULES,
};

const struct filter_rule filter_sockets_loopback_pairs[] = {
        INTERNET(AF_INET),
        INTERNET(AF_INET6),
        {"socket", FAIL(EPERM), {SET(0, 1)}},
        {"socket", FAIL(EPERM), {CLEAR(0, 2)}},
        {"socket", FAIL(EPERM), {SET(0, 4)}},
        {"socket", FAIL(EPERM), {SET(0, 16)}},
        {"socket", FAIL(EPERM), {SET(0, 32)}},
        {"socket", FAIL(EPERM), {EQUAL(0, AF_INET), MASKED(1, 0xf, SOCK_RAW)}},
        {"socket", FAIL(EPERM), {EQUAL(0, AF_INET6), MASKED(1, 0xf, SOCK_RAW)}},
        {"socketpair", ALLOW, {EQUAL(0, AF_UNIX), MASKED(1, 0xf, SOCK_STREAM)}},
        {"socketpair", ALLOW, {EQUAL(0, AF_UNIX), MASKED(1, 0xf, SOCK_SEQPACKET)}},
        END_OF_RULES,
};

/* As (level, option). Among those left out: TCP_ULP, SO_ZEROCOPY, SO_ATTACH_FILTER, IP_MSFILTER,
 * packet and netfilter options. */
const struct filter_rule filter_socket_options[] = {
        OPTION(SOL_SOCKET, SO_REUSEADDR, SO_REUSEPORT, SO_BROADCAST, SO_SNDBUF, SO_RCVBUF,
               SO_RCVLOWAT, SO_KEEPALIVE, SO_LINGER, SO_PASSCRED, SO_TIMESTAMP_OLD, SO_RCVTIMEO_OLD,
               SO_SNDTIMEO_OLD, SO_RCVTIMEO_NEW, SO_SNDTIMEO_NEW),
        OPTION(IPPROTO_TCP, TCP_NODELAY, TCP_CORK, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT,
               TCP_QUICKACK, TCP_USER_TIMEOUT),
        OPTION(IPPROTO_IP, IP_TOS, IP_TTL, IP_MTU_DISCOVER,
               IP_RECVERR), /* IP_RECVERR: the resolver of glibc */
        OPTION(IPPROTO_IPV6, IPV6_V6ONLY, IPV6_TCLASS, IPV6_RECVERR),
        END_OF_RULES,
};
