/* The tables. */
#include "policy/seccomp/rules.h"

#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/memfd.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "policy/seccomp/helper-rules.h"
#include "policy/seccomp/rule-words.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif
#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x80
#endif
#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif
#define TERMIOS2        44 /* sizeof(struct termios2), part of the four requests' numbers */
#define GET_TERMIOS2    _IOC(_IOC_READ, 'T', 0x2a, TERMIOS2) /* TCGETS2 */
#define SET_TERMIOS2(n) _IOC(_IOC_WRITE, 'T', (n), TERMIOS2) /* 0x2b: TCSETS2; TCSETSW2, TCSETSF2 */

/*
 * The filter of the guest and of the template that it is cloned from.
 *
 * It allows the calls that CPython, its standard library, numpy and node were observed to make,
 * without those that have an alternative and a history of kernel bugs. Denied calls fail with an
 * errno that programs handle: sendfile and copy_file_range fail as on a file system without them, so
 * that shutil, cp and node fall back to read and write.
 */
static const struct filter_rule filter_guest_calls[] = {
        /* memory */
        {"brk munmap mremap mprotect mlock mlock2 munlock membarrier "
         "pkey_alloc pkey_free pkey_mprotect mseal map_shadow_stack",
         ALLOW},
        /* threads and processes */
        {"fork vfork execve execveat exit exit_group wait4 waitid set_tid_address set_robust_list "
         "get_robust_list rseq futex futex_wait futex_wake futex_requeue futex_waitv arch_prctl "
         "getpid getppid gettid getpgrp getpgid setpgid getsid getuid geteuid getgid "
         "getegid "
         "getresuid getresgid getgroups capget getrusage getrlimit times uname getcpu "
         "sched_yield sched_setaffinity sched_getparam sched_getscheduler "
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
        {"read write readv writev pread64 pwrite64 preadv pwritev lseek close dup "
         "dup2 dup3 ftruncate fallocate pipe pipe2 eventfd eventfd2 poll ppoll select pselect6 "
         "epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 inotify_init "
         "inotify_init1 inotify_add_watch inotify_rm_watch",
         ALLOW},
        /* Not CLOSE_RANGE_UNSHARE (2): threads share the descriptors of their process. */
        {"close_range", ALLOW, {CLEAR(2, 2)}},
        {"close_range", FAIL(EINVAL), {SET(2, 2)}},
        /* files */
        {"creat access faccessat faccessat2 stat fstat lstat newfstatat statx "
         "readlink readlinkat getcwd chdir fchdir getdents getdents64 mkdir mkdirat "
         "rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat chmod "
         "fchmod "
         "fchmodat fchmodat2 chown fchown lchown fchownat utime utimes utimensat futimesat "
         "truncate "
         "getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr",
         ALLOW},
        /* sockets, of the families in filter_sockets_… */
        {"bind connect listen accept accept4 getsockname getpeername shutdown", ALLOW},
        {"getrandom", ALLOW},

        /* All options but SO_COOKIE (57) and SO_NETNS_COOKIE (71): counters of the machine, which tell how
         * many sockets and namespaces others have made. SOL_SOCKET is 1. */
        {"getsockopt", ALLOW, {CLEAR(1, 1)}},
        {"getsockopt", ALLOW, {EQUAL(1, 0)}, VALUES(IPPROTO_UDP, IPPROTO_IPV6)},
        {"getsockopt", ALLOW, {EQUAL(1, SOL_SOCKET), MASKED(2, ~31u, 0)}},
        {"getsockopt", ALLOW, {EQUAL(1, SOL_SOCKET), MASKED(2, ~15u, 32)}},
        {"getsockopt", ALLOW, {EQUAL(1, SOL_SOCKET), MASKED(2, ~7u, 48)}},
        {"getsockopt", ALLOW, {EQUAL(1, SOL_SOCKET), EQUAL(2, 56)}},
        {"getsockopt", ALLOW, {EQUAL(1, SOL_SOCKET), MASKED(2, ~1u, 58)}},
        {"getsockopt", ALLOW, {EQUAL(1, SOL_SOCKET), MASKED(2, ~3u, 60)}},
        {"getsockopt", ALLOW, {EQUAL(1, SOL_SOCKET), MASKED(2, ~3u, 64)}},
        {"getsockopt", ALLOW, {EQUAL(1, SOL_SOCKET), MASKED(2, ~1u, 68)}},
        {"getsockopt", ALLOW, {EQUAL(1, SOL_SOCKET), EQUAL(2, 70)}},
        {"getsockopt", ALLOW, {EQUAL(1, SOL_SOCKET), MASKED(2, ~7u, 72)}},
        {"getsockopt",
         FAIL(ENOPROTOOPT),
         {EQUAL(1, SOL_SOCKET), EQUAL(2, 0)},
         VALUES(SO_COOKIE, SO_NETNS_COOKIE)},

        /* As on file systems that lack them: programs fall back. */
        {"sendfile", FAIL(EINVAL)},
        {"copy_file_range", FAIL(EXDEV)},
        {"setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr", FAIL(EOPNOTSUPP)},

        /* Old calls, of which programs expect EPERM rather than ENOSYS. */
        {"ptrace kcmp", FAIL(EPERM)},
        {"keyctl add_key request_key", FAIL(EPERM)},
        {"bpf perf_event_open fanotify_init fanotify_mark", FAIL(EPERM)},
        {"init_module finit_module delete_module kexec_load kexec_file_load", FAIL(EPERM)},
        {"reboot swapon swapoff acct quotactl nfsservctl vhangup lookup_dcookie syslog",
         FAIL(EPERM)},
        {"iopl ioperm modify_ldt uselib personality", FAIL(EPERM)},
        {"name_to_handle_at open_by_handle_at", FAIL(EPERM)},
        {"settimeofday clock_settime clock_adjtime adjtimex stime", FAIL(EPERM)},
        /* It tells which pages of the image other sessions have read, and a filter cannot see what a range maps. */
        {"mincore", FAIL(EPERM)},
        {"setuid setgid setreuid setregid setfsuid setfsgid", FAIL(EPERM)},
        {"sched_setparam sched_setattr sched_setscheduler ioprio_set mlockall", FAIL(EPERM)},
        END_OF_RULES,
};

/* Setting limits: some resources, never RLIMIT_CORE. */
/* clang-format off */
#define RLIMIT_WRITE(bits, want) \
        RULE("setrlimit", ALLOW, MASKED(0, bits, want)), \
        RULE("prlimit64", ALLOW, EQUAL(0, 0), MASKED(1, bits, want))
/* clang-format on */

/* Locks that belong to an open file. */
#define OPEN_FILE_LOCKS(action)                                                                    \
        {                                                                                          \
                "fcntl", action, {EQUAL(1, 0)}, VALUES(F_OFD_GETLK, F_OFD_SETLK)                   \
        }

static const struct filter_rule filter_guest_arguments[] = {
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
         * other sessions read of the image that they share. No hints about writing (F_SET_RW_HINT): the inode
         * of a shared file keeps the value. No F_SETPIPE_SZ: the pipes of output count for the monitor's
         * user. The first three rules are the commands below 64 except 4 to 7 and 36 to 39. Locks are memory that no control group counts, and reach others who use the same file: init takes them
         * (sandbox-init/init/locks.h). */
        {"fcntl", ALLOW, {MASKED(1, ~59u, 0)}},
        {"fcntl", ALLOW, {MASKED(1, ~51u, F_SETFL | 8)}},
        {"fcntl", ALLOW, {MASKED(1, ~43u, F_SETFL | 16)}},
        {"fcntl", ASK_INIT, {EQUAL(1, 0)}, VALUES(F_GETLK, F_SETLK, F_SETLKW)},
        {"fcntl", ALLOW, {EQUAL(1, F_SETFL), CLEAR(2, O_DIRECT)}},
        {"fcntl", FAIL(EINVAL), {EQUAL(1, F_SETFL), SET(2, O_DIRECT)}},
        {"fcntl", ALLOW, {EQUAL(1, F_GETLEASE)}},
        {"fcntl", ALLOW, {EQUAL(1, F_SETLEASE + 3)}}, /* F_DUPFD_QUERY */
        {"fcntl", ALLOW, {MASKED(1, ~1u, F_SETLEASE + 4)}},
        {"fcntl", ALLOW, {EQUAL(1, F_DUPFD_CLOEXEC)}},
        {"fcntl", ALLOW, {EQUAL(1, 0)}, VALUES(F_GETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS)},
        {"fcntl",
         FAIL(EINVAL),
         {EQUAL(1, 0)},
         VALUES(F_OFD_SETLKW, F_OFD_SETLKW + 1, F_SETLEASE, F_NOTIFY, F_GET_RW_HINT, F_SET_RW_HINT,
                F_GET_FILE_RW_HINT, F_SET_FILE_RW_HINT)},
        {"fcntl", FAIL(EPERM), {EQUAL(1, F_SETPIPE_SZ)}},

        /* Reads past the page cache load the disk of the host. openat2 has its flags in memory, where a filter cannot
         * read them: it fails with ENOSYS. */
        {"open", FAIL(EINVAL), {SET(1, O_DIRECT)}},
        {"openat", FAIL(EINVAL), {SET(2, O_DIRECT)}},
        /* MADV_COLD (20) and MADV_PAGEOUT (21) drop pages of shared files that belong to the sandbox's id. */
        {"madvise", ALLOW, {SET(2, 2)}},
        {"madvise", ALLOW, {CLEAR(2, 4)}},
        {"madvise", ALLOW, {SET(2, 8)}},
        {"madvise", ALLOW, {CLEAR(2, 16)}},
        {"madvise", FAIL(EINVAL), {MASKED(2, 30, MADV_COLD)}},
        /* RWF_NOWAIT tells whether a page of a shared file is in the page cache, RWF_DONTCACHE drops it. */
        {"preadv2", ALLOW, {CLEAR(5, RWF_NOWAIT | RWF_DONTCACHE)}},
        {"preadv2 pwritev2", FAIL(EOPNOTSUPP), {SET(5, RWF_NOWAIT)}},
        {"preadv2 pwritev2",
         FAIL(EOPNOTSUPP),
         {MASKED(5, RWF_NOWAIT | RWF_DONTCACHE, RWF_DONTCACHE)}},

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

static const struct filter_rule filter_locks_none[] = {
        OPEN_FILE_LOCKS(FAIL(EINVAL)),
        END_OF_RULES,
};

/* The template's, if the profile has a mount with locks: init takes them, and has the template's filter too. */
static const struct filter_rule filter_locks_host[] = {
        OPEN_FILE_LOCKS(ALLOW),
        END_OF_RULES,
};

/* They write to the disk, or move pages that others use between it and the page cache. */
#define SYNC_CALLS  "fsync fdatasync sync_file_range"
#define CACHE_CALLS "fadvise64 readahead"

/* Opening for reading without O_CLOEXEC, as commands and the C library's fopen() do: init answers if it is a file of
 * sandbox-init/init/machine-files.h. CPython, the loader of programs and most runtimes set O_CLOEXEC, and do not wait for init. */
/* clang-format off */
#define OPENS_WITH(bit, denied) \
        {"open", ALLOW, {MASKED(1, (denied) | (bit), bit)}}, \
        {"openat", ALLOW, {MASKED(2, (denied) | (bit), bit)}}
#define OPENS(denied) \
        {"open", ASK_OR_ALLOW, {CLEAR(1, (denied) | O_ACCMODE | O_CREAT | O_CLOEXEC | O_PATH)}}, \
        {"openat", ASK_OR_ALLOW, {CLEAR(2, (denied) | O_ACCMODE | O_CREAT | O_CLOEXEC | O_PATH)}}, \
        OPENS_WITH(O_WRONLY, denied), \
        OPENS_WITH(O_RDWR, denied), \
        OPENS_WITH(O_CREAT, denied), \
        OPENS_WITH(O_CLOEXEC, denied), \
        OPENS_WITH(O_PATH, denied)
/* clang-format on */

static const struct filter_rule filter_opens_any[] = {
        {"open", ALLOW, {CLEAR(1, O_DIRECT)}},
        {"openat", ALLOW, {CLEAR(2, O_DIRECT)}},
        END_OF_RULES,
};

static const struct filter_rule filter_opens_asked[] = {
        OPENS(O_DIRECT),
        END_OF_RULES,
};

static const struct filter_rule filter_writes_any[] = {
        {"pwritev2", ALLOW, {CLEAR(5, RWF_NOWAIT | RWF_DONTCACHE)}},
        END_OF_RULES,
};

/* No file that code can write to is on a disk: there is nothing to write, and it would only make the host's file
 * system work, or drop pages that other sessions need. */
static const struct filter_rule filter_sync_none[] = {
        {SYNC_CALLS " " CACHE_CALLS, FAIL(0)},
        {"msync", ALLOW, {CLEAR(2, MS_SYNC)}},
        {"msync", FAIL(0), {SET(2, MS_SYNC)}},
        END_OF_RULES,
};

/* With writable directories of the host: init bounds how many syncs a session makes, which it could not for files
 * whose every write is one. */
static const struct filter_rule filter_sync_writable[] = {
        OPENS(O_DIRECT | O_DSYNC),
        {"open", FAIL(EINVAL), {SET(1, O_DSYNC)}},
        {"openat", FAIL(EINVAL), {SET(2, O_DSYNC)}},
        {"pwritev2", ALLOW, {CLEAR(5, RWF_NOWAIT | RWF_DONTCACHE | RWF_DSYNC | RWF_SYNC)}},
        {"pwritev2", FAIL(EOPNOTSUPP), {SET(5, RWF_DSYNC)}},
        {"pwritev2", FAIL(EOPNOTSUPP), {SET(5, RWF_SYNC)}},
        {SYNC_CALLS, ASK_INIT},
        {"msync", ALLOW, {CLEAR(2, MS_SYNC)}},
        {"msync", ASK_INIT, {SET(2, MS_SYNC)}},
        {CACHE_CALLS, FAIL(0)},
        END_OF_RULES,
};

/* The template's, which a session is under besides its own. */
static const struct filter_rule filter_sync_template[] = {
        {SYNC_CALLS " " CACHE_CALLS " msync", ALLOW},
        END_OF_RULES,
};

/* Huge pages come from a pool of the host, which no limit of a sandbox counts. Without a pool the
 * kernel answers ENOMEM too. */
static const struct filter_rule filter_memory_all[] = {
        {"mmap", ALLOW, {CLEAR(3, MAP_HUGETLB)}},
        {"mmap", FAIL(ENOMEM), {SET(3, MAP_HUGETLB)}},
        {"memfd_create", ALLOW, {CLEAR(1, MFD_HUGETLB)}},
        END_OF_RULES,
};

/* Without a control group the monitor counts the memory of a session's processes. Pages of a memfd
 * and of a shared anonymous mapping can be in no process and stay, so that neither can be made:
 * shared memory is a file in /dev/shm, whose size is limited. RLIMIT_DATA does not count a mapping
 * that grows down. */
static const struct filter_rule filter_memory_counted[] = {
        {"mmap", ALLOW, {CLEAR(3, MAP_HUGETLB | MAP_GROWSDOWN | MAP_SHARED)}},
        {"mmap", ALLOW, {CLEAR(3, MAP_HUGETLB | MAP_GROWSDOWN | MAP_ANONYMOUS)}},
        {"mmap", FAIL(ENOMEM), {SET(3, MAP_HUGETLB)}},
        {"mmap", FAIL(EPERM), {MASKED(3, MAP_HUGETLB | MAP_GROWSDOWN, MAP_GROWSDOWN)}},
        {"mmap",
         FAIL(EPERM),
         {MASKED(3, MAP_HUGETLB | MAP_SHARED | MAP_ANONYMOUS, MAP_SHARED | MAP_ANONYMOUS)}},
        END_OF_RULES,
};

static const struct filter_rule filter_worker_only[] = {
        OPEN_FILE_LOCKS(FAIL(EINVAL)),
        /* No new namespaces. A filter cannot read the flags of clone3, which are in memory: it fails
         * with ENOSYS, and libc uses clone. */
        {"clone", ALLOW, {CLEAR(0, CLONE_NAMESPACES | CLONE_THREAD)}},
        {"clone", ALLOW, {MASKED(0, CLONE_NAMESPACES | CLONE_FILES, CLONE_FILES)}},
        /* A thread with descriptors of its own: init takes files from the process. */
        {"clone", FAIL(EPERM), {MASKED(0, CLONE_THREAD | CLONE_FILES, CLONE_THREAD)}},
        {"clone", FAIL(EPERM), {SET(0, CLONE_NEWNS)}},
        {"clone", FAIL(EPERM), {SET(0, CLONE_NEWCGROUP)}},
        {"clone", FAIL(EPERM), {SET(0, CLONE_NEWUTS)}},
        {"clone", FAIL(EPERM), {SET(0, CLONE_NEWIPC)}},
        {"clone", FAIL(EPERM), {SET(0, CLONE_NEWUSER)}},
        {"clone", FAIL(EPERM), {SET(0, CLONE_NEWPID)}},
        {"clone", FAIL(EPERM), {SET(0, CLONE_NEWNET)}},
        {"unshare setns process_vm_readv process_vm_writev", FAIL(EPERM)},
        {"flock", ASK_INIT},
        /* They tell how many processes, and how much memory and disk, others use. */
        {"sysinfo statfs fstatfs", ASK_INIT},
        {"sched_getaffinity", ASK_OR_ALLOW}, /* at most as many processors as limits.cpu */
        {"setsid", ASK_OR_ALLOW}, /* a share of the processors, where no group has them */
        {"mount umount2 pivot_root chroot", FAIL(EPERM)},
        {"setresuid setresgid setgroups capset", FAIL(EPERM)},
        {"sethostname setdomainname", FAIL(EPERM)},

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
              PR_GET_NO_NEW_PRIVS, PR_SET_THP_DISABLE),
        /* The kernel keeps 80 bytes for the name of each of 65,530 mappings of a process, and charges them to no control group. The
         * answer is that of a kernel without CONFIG_ANON_VMA_NAME. */
        {"prctl", FAIL(EINVAL), {EQUAL(0, PR_SET_VMA)}},
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
static const struct filter_rule filter_template_only[] = {
        /* take the ids of the session, clone PID 1 into new namespaces */
        {"setresuid setresgid setgroups capset", ALLOW},
        {"clone clone3", ALLOW},
        {"unshare", ALLOW, {EQUAL(0, CLONE_NEWNET)}},    /* of the next session */
        {"setns", ALLOW, {EQUAL(1, CLONE_NEWNET)}},      /* of an ended session, or its own */
        {"unshare", ALLOW, {EQUAL(0, CLONE_NEWCGROUP)}}, /* when PID 1 is in its cgroup */
        {"setsid", ALLOW},
        /* mounts: can be added and copied; existing ones cannot be moved, changed or removed, so
         * that a hostile image cannot write to a directory that is mounted read-only */
        {"fsopen fsconfig fsmount move_mount open_tree openat2", ALLOW},
        {"mount", ALLOW, {EQUAL(3, MS_REC | MS_PRIVATE)}},
        {"mount", FAIL(EPERM), {CLEAR(3, MS_REC)}},
        {"mount", FAIL(EPERM), {CLEAR(3, MS_PRIVATE)}},
        {"mount_setattr umount2 pivot_root chroot", FAIL(EPERM)},
        {"sethostname setdomainname", ALLOW},
        {"mknod", ALLOW, {MASKED(1, S_IFMT, S_IFIFO)}},
        {"mknodat", ALLOW, {MASKED(2, S_IFMT, S_IFIFO)}},
        /* confinement; no SECCOMP_FILTER_FLAG_SPEC_ALLOW */
        {"seccomp",
         ALLOW,
         {EQUAL(0, SECCOMP_SET_MODE_FILTER),
          CLEAR(1, ~(SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_NEW_LISTENER))}},
        /* init, which has this filter too, takes the locks of its session */
        {"flock pidfd_getfd process_vm_readv process_vm_writev sysinfo statfs fstatfs "
         "sched_getaffinity",
         ALLOW},
        IOCTL(SECCOMP_IOCTL_NOTIF_RECV, SECCOMP_IOCTL_NOTIF_SEND, SECCOMP_IOCTL_NOTIF_ID_VALID,
              SECCOMP_IOCTL_NOTIF_ADDFD,
              _IOW('!', 4, uint64_t)), /* SECCOMP_IOCTL_NOTIF_SET_FLAGS */
        {"landlock_create_ruleset landlock_add_rule landlock_restrict_self", ALLOW},
        PRCTL(PR_SET_SECCOMP, PR_GET_SECCOMP, PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS,
              PR_SET_DUMPABLE, PR_GET_DUMPABLE, PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_SET_NAME,
              PR_GET_NAME, PR_SET_KEEPCAPS, PR_GET_KEEPCAPS, PR_SET_SECUREBITS, PR_GET_SECUREBITS,
              PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_SET_SPECULATION_CTRL,
              PR_SET_TIMERSLACK, PR_GET_TIMERSLACK, PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER,
              PR_SET_THP_DISABLE),
        {"prctl", FAIL(EINVAL), {EQUAL(0, PR_SET_VMA)}}, /* as for sessions */
        END_OF_RULES,
};

static const struct filter_rule filter_template_loopback[] = {
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
static const struct filter_rule filter_sockets_unix[] = {
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
static const struct filter_rule filter_sockets_loopback[] = {
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
static const struct filter_rule filter_sockets_pairs[] = {
        {"socket", FAIL(EPERM)},
        {"socketpair", ALLOW, {EQUAL(0, AF_UNIX), MASKED(1, 0xf, SOCK_STREAM)}},
        {"socketpair", ALLOW, {EQUAL(0, AF_UNIX), MASKED(1, 0xf, SOCK_SEQPACKET)}},
        END_OF_RULES,
};

static const struct filter_rule filter_sockets_loopback_pairs[] = {
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
static const struct filter_rule filter_socket_options[] = {
        OPTION(SOL_SOCKET, SO_REUSEADDR, SO_REUSEPORT, SO_BROADCAST, SO_RCVLOWAT, SO_KEEPALIVE,
               SO_PASSCRED, SO_TIMESTAMP_OLD, SO_RCVTIMEO_OLD, SO_SNDTIMEO_OLD, SO_RCVTIMEO_NEW,
               SO_SNDTIMEO_NEW),
        OPTION(IPPROTO_TCP, TCP_NODELAY, TCP_CORK, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT,
               TCP_QUICKACK, TCP_USER_TIMEOUT),
        OPTION(IPPROTO_IP, IP_TOS, IP_TTL, IP_MTU_DISCOVER,
               IP_RECVERR), /* IP_RECVERR: the resolver of glibc */
        OPTION(IPPROTO_IPV6, IPV6_V6ONLY, IPV6_TCLASS, IPV6_RECVERR),
        /* With it, close() waits for a peer. init closes files of code after a look at them (sandbox-init/init/locks.h). */
        {"setsockopt", FAIL(0), {EQUAL(1, SOL_SOCKET), EQUAL(2, SO_LINGER)}},
        /* Servers of FTP and telnet set it. Nothing can be sent with MSG_OOB: all data is in line. */
        {"setsockopt", FAIL(0), {EQUAL(1, SOL_SOCKET), EQUAL(2, SO_OOBINLINE)}},
        /* The size is behind a pointer, and its bound is the machine's. The kernel changes these sizes as it likes too. */
        {"setsockopt", FAIL(0), {EQUAL(1, SOL_SOCKET), EQUAL(2, SO_SNDBUF)}},
        {"setsockopt", FAIL(0), {EQUAL(1, SOL_SOCKET), EQUAL(2, SO_RCVBUF)}},
        END_OF_RULES,
};

/* ---- the filters of our own processes: init, stub, image reader, broker and proxy ---- */

static const struct filter_rule filter_init_all[] = {
        {"read write close ppoll poll wait4 waitid kill getpid getsid", ALLOW},
        {"rt_sigaction rt_sigprocmask rt_sigreturn rt_sigtimedwait restart_syscall", ALLOW},
        {"exit exit_group", ALLOW},
        {"lseek getdents64", ALLOW}, /* of a proc, its counters, and directories in /workspace */
        {"openat", ALLOW, {CLEAR(2, O_ACCMODE | O_CREAT | O_TRUNC)}},
        {"openat",
         ALLOW,
         {EQUAL(2, O_WRONLY | O_CLOEXEC)}}, /* oom_score_adj of a copy, autogroup */
        {"newfstatat fstat fstatfs clock_gettime", ALLOW},
        /* locks (sandbox-init/init/locks.h) */
        {"flock pidfd_open pidfd_getfd pidfd_send_signal", ALLOW},
        {"process_vm_readv process_vm_writev", ALLOW},
        {"fcntl", ALLOW, {EQUAL(1, F_GETFL)}},
        {"clone", ALLOW, {EQUAL(0, CLONE_VM | SIGCHLD)}}, /* figures.c */
        /* machine-files.c: new files without a name, in /workspace */
        {"openat",
         ALLOW,
         {MASKED(2, O_ACCMODE | O_CREAT | O_TRUNC | O_TMPFILE, O_RDWR | O_TMPFILE)}},
        {"sched_getaffinity", ALLOW},
        IOCTL(SECCOMP_IOCTL_NOTIF_RECV, SECCOMP_IOCTL_NOTIF_SEND, SECCOMP_IOCTL_NOTIF_ID_VALID,
              SECCOMP_IOCTL_NOTIF_ADDFD),
        END_OF_RULES,
};

/* With a mount whose locks are those of the host's files: init has each file open itself. */
static const struct filter_rule filter_init_locks[] = {
        {"openat", ALLOW, {MASKED(2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDWR)}},
        OPEN_FILE_LOCKS(ALLOW),
        {"statx", ALLOW},
        END_OF_RULES,
};

static const struct filter_rule filter_stub_all[] = {
        {"read exit exit_group rt_sigreturn", ALLOW},
        END_OF_RULES,
};

/*
 * The broker parses untrusted bytes. It starts no process: it has no execve, and clone for threads
 * only. It creates no AF_UNIX socket, which could connect to abstract names of the host.
 */
static const struct filter_rule filter_broker_calls[] = {
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

static const struct filter_rule filter_broker_arguments[] = {
        {"clone", ALLOW, {MASKED(0, CLONE_NAMESPACES | CLONE_THREAD, CLONE_THREAD)}},
        {"clone", FAIL(EPERM), {CLEAR(0, CLONE_THREAD)}},

        {"socketpair", ALLOW, {EQUAL(0, AF_UNIX), MASKED(1, 0xf, SOCK_STREAM)}},
        {"sendto recvfrom sendmmsg recvmmsg", ALLOW, {CLEAR(3, MSG_DENIED)}},
        {"sendmsg recvmsg", ALLOW, {CLEAR(2, MSG_DENIED)}},

        IOCTL(FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, TCGETS, TIOCGWINSZ),
        /* A line that was typed before a question does not answer it. */
        {"ioctl", ALLOW, {EQUAL(1, TCFLSH), EQUAL(2, TCIFLUSH)}},

        PRCTL(PR_SET_NAME, PR_GET_NAME, PR_SET_VMA, PR_GET_DUMPABLE, PR_GET_NO_NEW_PRIVS,
              PR_GET_SECCOMP),

        /* Reads any limit of its own; sets RLIMIT_NOFILE. */
        {"prlimit64", ALLOW, {EQUAL(0, 0), IS_NULL(2)}},
        {"prlimit64", ALLOW, {EQUAL(0, 0), EQUAL(1, RLIMIT_NOFILE), NOT_NULL(2)}},
        END_OF_RULES,
};

/* Without servers that are reached by HTTP: it reaches nothing but what it was given. */
static const struct filter_rule filter_broker_alone[] = {
        {"socket connect", FAIL(EPERM)},
        END_OF_RULES,
};

/* Connections to the internet, and what the resolver of libc needs. */
static const struct filter_rule filter_internet[] = {
        {"connect", ALLOW},
        INTERNET(AF_INET),
        INTERNET(AF_INET6),
        SOCKET(AF_NETLINK, SOCK_RAW, 0), /* NETLINK_ROUTE: getaddrinfo() lists the addresses */
        {"socket", FAIL(EPERM), {EQUAL(0, AF_UNIX)}},
        END_OF_RULES,
};

/*
 * The program that installs packages runs pip or uv, which parse what an index sends. It starts programs, reaches addresses of the
 * internet families, and listens nowhere.
 */
static const struct filter_rule filter_installer_calls[] = {
        {"brk munmap mremap mprotect madvise membarrier", ALLOW},
        {"fork vfork execve exit exit_group wait4 waitid set_tid_address set_robust_list rseq futex "
         "futex_waitv arch_prctl getpid getppid gettid getpgrp getpgid getsid setsid getuid geteuid "
         "getgid getegid getresuid getresgid getgroups getrusage getrlimit setrlimit times uname "
         "sysinfo getcpu sched_yield sched_getaffinity sched_getparam sched_getscheduler "
         "getpriority umask restart_syscall pause",
         ALLOW},
        {"kill tgkill rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend "
         "rt_sigtimedwait sigaltstack signalfd4 pidfd_open pidfd_send_signal",
         ALLOW},
        {"clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time alarm getitimer "
         "setitimer timerfd_create timerfd_gettime timerfd_settime",
         ALLOW},
        {"read write readv writev pread64 pwrite64 preadv pwritev lseek close close_range dup dup2 "
         "dup3 flock fsync fdatasync ftruncate fallocate fadvise64 pipe pipe2 eventfd eventfd2 poll "
         "ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait "
         "epoll_pwait2",
         ALLOW},
        {"access faccessat faccessat2 stat fstat lstat newfstatat statx statfs fstatfs readlink "
         "readlinkat getcwd chdir fchdir getdents getdents64 mkdir mkdirat rmdir unlink unlinkat "
         "rename renameat renameat2 link linkat symlink symlinkat utime utimes utimensat futimesat "
         "truncate",
         ALLOW},
        {"bind connect getsockname getpeername getsockopt shutdown getrandom", ALLOW},
        {"sendfile", FAIL(EINVAL)},
        {"copy_file_range", FAIL(EXDEV)},
        {"getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr", FAIL(EOPNOTSUPP)},
        {"listen accept accept4 unshare setns mount umount2 pivot_root chroot ptrace "
         "process_vm_readv process_vm_writev setuid setgid setresuid setresgid setgroups keyctl "
         "personality",
         FAIL(EPERM)},
        END_OF_RULES,
};

/* On the host's file system a program with S_ISUID or S_ISGID would run with the rights of the images' owner. */
static const struct filter_rule filter_installer_modes[] = {
        {"chmod fchmod", ALLOW, {CLEAR(1, S_ISUID | S_ISGID)}},
        {"chmod fchmod", FAIL(EPERM), {SET(1, S_ISUID)}},
        {"chmod fchmod", FAIL(EPERM), {SET(1, S_ISGID)}},
        {"fchmodat fchmodat2", ALLOW, {CLEAR(2, S_ISUID | S_ISGID)}},
        {"fchmodat fchmodat2", FAIL(EPERM), {SET(2, S_ISUID)}},
        {"fchmodat fchmodat2", FAIL(EPERM), {SET(2, S_ISGID)}},
        {"open", ALLOW, {CLEAR(1, O_CREAT | (O_TMPFILE & ~O_DIRECTORY))}},
        {"open", ALLOW, {CLEAR(2, S_ISUID | S_ISGID)}},
        {"openat", ALLOW, {CLEAR(2, O_CREAT | (O_TMPFILE & ~O_DIRECTORY))}},
        {"openat", ALLOW, {CLEAR(3, S_ISUID | S_ISGID)}},
        END_OF_RULES,
};

static const struct filter_rule filter_installer_arguments[] = {
        {"clone", ALLOW, {CLEAR(0, CLONE_NAMESPACES)}},
        {"prlimit64", ALLOW, {EQUAL(0, 0)}},
        {"fcntl", ALLOW, {MASKED(1, ~63u, 0)}},
        {"fcntl", ALLOW, {EQUAL(1, F_DUPFD_CLOEXEC)}},
        {"sendto recvfrom sendmmsg recvmmsg", ALLOW, {CLEAR(3, MSG_DENIED)}},
        {"sendmsg recvmsg", ALLOW, {CLEAR(2, MSG_DENIED)}},
        IOCTL(FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, TCGETS, TIOCGWINSZ),
        {"ioctl", FAIL(EOPNOTSUPP), {EQUAL(1, FICLONE)}},
        PRCTL(PR_SET_PDEATHSIG, PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_SET_VMA,
              PR_CAPBSET_READ),
        {"socketpair", ALLOW, {EQUAL(0, AF_UNIX), MASKED(1, 0xf, SOCK_STREAM)}},
        INTERNET(AF_INET),
        INTERNET(AF_INET6),
        SOCKET(AF_NETLINK, SOCK_RAW, 0), /* as in filter_internet */
        {"socket", FAIL(EPERM), {EQUAL(0, AF_UNIX)}},
        END_OF_RULES,
};

/*
 * The proxy of sessions relays untrusted bytes. It starts no process, opens files for reading only, maps
 * nothing executable, and listens nowhere: its listeners are given to it.
 */
static const struct filter_rule filter_egress_calls[] = {
        {"brk munmap mremap madvise membarrier", ALLOW},
        {"mmap mprotect", ALLOW, {CLEAR(2, PROT_EXEC)}},
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
        /* A tunnel to cloister-inject: it reaches nothing else. */
        {"socketpair", ALLOW, {EQUAL(0, AF_UNIX), MASKED(1, 0xf, SOCK_STREAM)}},
        {"setsockopt", ALLOW, {EQUAL(1, IPPROTO_TCP), EQUAL(2, TCP_NODELAY)}},
        {"setsockopt", ALLOW, {EQUAL(1, IPPROTO_IP), EQUAL(2, IP_RECVERR)}},
        {"setsockopt", ALLOW, {EQUAL(1, IPPROTO_IPV6), EQUAL(2, IPV6_RECVERR)}},
        /* Its sockets have buffers of a size that it chooses (supervisor/egress/buffers.h). */
        OPTION(SOL_SOCKET, SO_SNDBUF, SO_RCVBUF, SO_RCVLOWAT, SO_BUF_LOCK, SO_LINGER),
        {"clone", ALLOW, {MASKED(0, CLONE_NAMESPACES | CLONE_THREAD, CLONE_THREAD)}},
        IOCTL(FIONREAD, FIONBIO, SIOCOUTQ),
        PRCTL(PR_SET_NAME, PR_SET_VMA),
        {"prlimit64", ALLOW, {EQUAL(0, 0), IS_NULL(2)}},
        END_OF_RULES,
};

/* ---- the tables ---- */

#define GUEST   filter_guest_calls, filter_guest_arguments, filter_socket_options
#define NO_SYNC filter_opens_asked, filter_writes_any, filter_sync_none
#define WORKER  GUEST, filter_memory_all, filter_worker_only
#define TEMPLATE                                                                                   \
        GUEST, filter_template_only, filter_opens_any, filter_writes_any, filter_sync_template
/* Each kind, and the same with locks. */
#define TEMPLATES(kind, name, ...)                                                                 \
        [kind] = {name, FAIL(ENOSYS), {TEMPLATE, filter_locks_none, __VA_ARGS__}},                 \
        [(kind) + FILTER_TEMPLATE_LOCKS] = {                                                       \
                name " and locks", FAIL(ENOSYS), {TEMPLATE, filter_locks_host, __VA_ARGS__}}
#define BROKER filter_broker_calls, filter_broker_arguments, filter_socket_options

static const struct filter_table tables[] = {
        [FILTER_WORKER] = {"worker", FAIL(ENOSYS), {WORKER, NO_SYNC, filter_sockets_unix}},
        [FILTER_WORKER_LOOPBACK] = {"worker with loopback",
                                    FAIL(ENOSYS),
                                    {WORKER, NO_SYNC, filter_sockets_loopback}},
        [FILTER_WORKER_MOUNTS] = {"worker with mounts",
                                  FAIL(ENOSYS),
                                  {WORKER, NO_SYNC, filter_sockets_pairs}},
        [FILTER_WORKER_LOOPBACK_MOUNTS] = {"worker with loopback and mounts",
                                           FAIL(ENOSYS),
                                           {WORKER, NO_SYNC, filter_sockets_loopback_pairs}},
        [FILTER_WORKER_WRITABLE] = {"worker with writable mounts",
                                    FAIL(ENOSYS),
                                    {WORKER, filter_sync_writable, filter_sockets_pairs}},
        [FILTER_WORKER_LOOPBACK_WRITABLE] = {"worker with loopback and writable mounts",
                                             FAIL(ENOSYS),
                                             {WORKER, filter_sync_writable,
                                              filter_sockets_loopback_pairs}},
        TEMPLATES(FILTER_TEMPLATE, "template", filter_memory_all, filter_sockets_unix),
        TEMPLATES(FILTER_TEMPLATE_LOOPBACK, "template with loopback", filter_memory_all,
                  filter_sockets_loopback, filter_template_loopback),
        TEMPLATES(FILTER_TEMPLATE_RLIMITS, "template with rlimits", filter_memory_counted,
                  filter_sockets_unix),
        TEMPLATES(FILTER_TEMPLATE_LOOPBACK_RLIMITS, "template with loopback, rlimits",
                  filter_memory_counted, filter_sockets_loopback, filter_template_loopback),
        [FILTER_INIT] = {"init", FAIL(ENOSYS), {filter_init_all}},
        [FILTER_INIT_LOCKS] = {"init with locks",
                               FAIL(ENOSYS),
                               {filter_init_all, filter_init_locks}},
        [FILTER_STUB] = {"stub", FAIL(ENOSYS), {filter_stub_all}},
        [FILTER_BROKER] = {"broker", FAIL(ENOSYS), {BROKER, filter_broker_alone}},
        [FILTER_BROKER_HTTP] = {"broker with http", FAIL(ENOSYS), {BROKER, filter_internet}},
        [FILTER_EGRESS] = {"egress", FAIL(ENOSYS), {filter_egress_calls, filter_internet}},
        [FILTER_READER] = {"image reader", FAIL(ENOSYS), {filter_reader_all}},
        [FILTER_PICTURE] = {"picture", FAIL(ENOSYS), {filter_picture_all}},
        [FILTER_JOURNAL] = {"journal", FAIL(ENOSYS), {filter_journal_all}},
        [FILTER_INJECT] = {"inject", FAIL(ENOSYS), {filter_inject_all}},
        [FILTER_UNPACKER] = {"unpacker", FAIL(ENOSYS), {filter_unpacker_all}},
        [FILTER_INSTALLER] = {"installer",
                              FAIL(ENOSYS),
                              {filter_installer_calls, filter_installer_modes,
                               filter_installer_arguments, filter_memory_counted,
                               filter_socket_options}},
};
static_assert(ARRAY_SIZE(tables) == FILTER_KIND_MAX, "one table per kind");

/* From 424 on a call has the same number on every architecture but alpha
 * (include/uapi/asm-generic/unistd.h). */
static const struct {
        const char *name;
        int number;
} recent[] = {
        {"fchmodat2", 452},  {"map_shadow_stack", 453}, {"futex_wake", 454},
        {"futex_wait", 455}, {"futex_requeue", 456},    {"mseal", 462},
};

const char *filter_kind_name(enum filter_kind kind)
{
        assert(kind < FILTER_KIND_MAX);
        return tables[kind].name;
}

const struct filter_table *filter_table(enum filter_kind kind)
{
        assert(kind < FILTER_KIND_MAX);
        return &tables[kind];
}

size_t filter_next_call(const char **calls, char ret[static FILTER_NAME_MAX])
{
        const char *start = *calls + strspn(*calls, " \n");
        size_t n = strcspn(start, " \n");

        assert(n < FILTER_NAME_MAX);
        memcpy(ret, start, n);
        ret[n] = '\0';
        *calls = start + n;
        return n;
}

int filter_recent_number(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(recent); i++)
                if (strcmp(recent[i].name, name) == 0)
                        return recent[i].number;
        return -1;
}
