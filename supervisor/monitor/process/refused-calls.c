/* Asks the filters around this process about single system calls. */
#include "supervisor/monitor/process/refused-calls.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum { TRY_MS = 5000, STEP_MS = 20 };

#define NO_FD (~0UL)

#define NEW_SESSION                                                                                \
        (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET)

static struct clone_args clone3_arguments = {.flags = NEW_SESSION, .exit_signal = SIGCHLD};

enum need {
        OPTIONAL,
        NEEDED,
        NEEDED_AS_ROOT, /* to give up what an ordinary user does not have, and for the image store */
        NEEDED_AS_USER,    /* to map one's own id */
        NEEDED_FOR_PYTHON, /* CPython has a substitute where the error is EPERM or ENOSYS */
        NEEDED_BY_LIBC,    /* which ends the process at any error but EINVAL */
};

/* The first arguments are those that filters compare. None of the calls is carried out. */
static const struct call {
        const char *name;
        long number;
        enum need need;
        unsigned long arguments[3];
        long unless; /* not used where this call is refused */
} calls[] = {
        {"clone", SYS_clone, NEEDED, {CLONE_NEWUSER | CLONE_NEWPID | SIGCHLD}},
        {"clone3",
         SYS_clone3,
         NEEDED,
         {(unsigned long)&clone3_arguments, sizeof(clone3_arguments)}},
        {"unshare",
         SYS_unshare,
         NEEDED,
         {CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS}},
        {"setns", SYS_setns, NEEDED, {0, CLONE_NEWUSER}},
        {"mount", SYS_mount, NEEDED, {0, (unsigned long)"/"}},
        {"umount2", SYS_umount2, NEEDED, {(unsigned long)".", MNT_DETACH}},
        {"pivot_root", SYS_pivot_root, NEEDED, {(unsigned long)".", (unsigned long)"."}},
        {"fsopen", SYS_fsopen, NEEDED, {(unsigned long)"tmpfs"}},
        {"fsconfig", SYS_fsconfig, NEEDED, {0, FSCONFIG_CMD_CREATE}},
        {"fsmount", SYS_fsmount, NEEDED, {0}},
        {"move_mount", SYS_move_mount, NEEDED, {0}},
        {"open_tree", SYS_open_tree, NEEDED, {0, (unsigned long)"/dev/null", OPEN_TREE_CLONE}},
        {"mount_setattr", SYS_mount_setattr, NEEDED, {0}},
        {"execveat", SYS_execveat, NEEDED, {0}},
        {"memfd_create", SYS_memfd_create, NEEDED, {(unsigned long)"sealed", MFD_ALLOW_SEALING}},
        {"pidfd_open", SYS_pidfd_open, NEEDED, {1}},
        {"capget", SYS_capget, NEEDED, {0}},
        {"capset", SYS_capset, NEEDED, {0}},
        {"setresuid", SYS_setresuid, NEEDED, {0}},
        {"setresgid", SYS_setresgid, NEEDED, {0}},
        {"setgroups", SYS_setgroups, NEEDED_AS_ROOT, {0}},
        {"statx", SYS_statx, NEEDED, {0}},
        {"seccomp", SYS_seccomp, NEEDED, {SECCOMP_SET_MODE_FILTER}},
        {"prctl", SYS_prctl, NEEDED, {PR_SET_NO_NEW_PRIVS, 1}},
        {"prlimit64", SYS_prlimit64, NEEDED, {0}},
        {"getrandom", SYS_getrandom, NEEDED_FOR_PYTHON, {0}},
        {"wait4", SYS_wait4, NEEDED, {0}},
        {"waitid", SYS_waitid, NEEDED, {P_PIDFD}},
        {"kill", SYS_kill, NEEDED, {0}},
        {"pipe2", SYS_pipe2, NEEDED, {0, O_CLOEXEC}},
        {"dup3", SYS_dup3, NEEDED, {0}},
        {"socketpair", SYS_socketpair, NEEDED, {AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC}},
        {"socket", SYS_socket, NEEDED, {AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE}},
        {"bind", SYS_bind, NEEDED, {0}},
        {"sendmsg", SYS_sendmsg, NEEDED, {0}},
        {"recvmsg", SYS_recvmsg, NEEDED, {0}},
        {"epoll_ctl", SYS_epoll_ctl, NEEDED, {0, EPOLL_CTL_ADD}, SYS_epoll_create1},
        {"ppoll", SYS_ppoll, NEEDED, {0}},
        {"sendfile", SYS_sendfile, NEEDED, {0}},
        {"getdents64", SYS_getdents64, NEEDED, {0}},
        {"mkdirat", SYS_mkdirat, NEEDED, {0}},
        {"symlinkat", SYS_symlinkat, NEEDED, {0}},
        {"fchmod", SYS_fchmod, NEEDED, {0}},
        {"chdir", SYS_chdir, NEEDED, {0}},
        {"fchdir", SYS_fchdir, NEEDED, {0}},
        {"getcwd", SYS_getcwd, NEEDED, {0}},
        {"setpgid", SYS_setpgid, NEEDED, {0}},
        {"sysinfo", SYS_sysinfo, NEEDED, {0}},
        {"landlock_add_rule", SYS_landlock_add_rule, NEEDED, {0}, SYS_landlock_create_ruleset},
        {"landlock_restrict_self",
         SYS_landlock_restrict_self,
         NEEDED,
         {0},
         SYS_landlock_create_ruleset},
        {"write", SYS_write, NEEDED, {NO_FD}},
        {"lseek", SYS_lseek, NEEDED, {NO_FD}},
        {"fcntl", SYS_fcntl, NEEDED, {NO_FD, F_GETFD}},
        {"setsockopt", SYS_setsockopt, NEEDED, {NO_FD, SOL_SOCKET, SO_PASSCRED}},
        {"rt_sigaction", SYS_rt_sigaction, NEEDED, {0}},
        {"rt_sigprocmask", SYS_rt_sigprocmask, NEEDED, {0}},
        {"futex", SYS_futex, NEEDED_BY_LIBC, {0}},
        {"getpid", SYS_getpid, NEEDED, {0}},
        {"geteuid", SYS_geteuid, NEEDED_AS_USER, {0}},
        {"getegid", SYS_getegid, NEEDED_AS_USER, {0}},
        {"getsockname", SYS_getsockname, NEEDED, {NO_FD}},
#ifdef SYS_dup2 /* these calls are old: younger architectures have none of them */
        {"dup2", SYS_dup2, NEEDED, {NO_FD, NO_FD}},
        {"mkdir", SYS_mkdir, NEEDED_AS_ROOT, {(unsigned long)"/"}},
        {"poll", SYS_poll, NEEDED, {0}},
        {"epoll_wait", SYS_epoll_wait, NEEDED, {NO_FD}, SYS_epoll_create1},
#endif
        {"sethostname", SYS_sethostname, OPTIONAL, {(unsigned long)"cloister", 8}},
        {"close_range", SYS_close_range, OPTIONAL, {3, ~0U}},
        {"openat2", SYS_openat2, OPTIONAL, {0}},
        {"landlock_create_ruleset", SYS_landlock_create_ruleset, OPTIONAL, {0}},
        {"epoll_create1", SYS_epoll_create1, OPTIONAL, {EPOLL_CLOEXEC}},
        {"pidfd_getfd", SYS_pidfd_getfd, OPTIONAL, {0}},
};
static_assert(ARRAY_SIZE(calls) <= REFUSED_CALLS_MAX, "room for all");

/* Shared with the child, as its table of descriptors is. */
struct shared {
        atomic_int listener; /* the number of the descriptor; -1: none yet */
        atomic_bool done;    /* the codes are complete */
        int codes[REFUSED_CALLS_MAX];
};

const char *refused_call_name(size_t i)
{
        return i < ARRAY_SIZE(calls) ? calls[i].name : NULL;
}

bool refused_calls_filtered(void)
{
        /* A filter may refuse this one too. */
        return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0;
}

static size_t index_of(long number)
{
        size_t i = 0;

        while (calls[i].number != number)
                i++;
        return i;
}

static int load_filter(unsigned int flags)
{
        struct sock_filter code[2 * ARRAY_SIZE(calls) + 2];
        size_t n = 0;

        code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                 offsetof(struct seccomp_data, nr));
        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                         (uint32_t)calls[i].number, 0, 1);
                code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
        }
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        struct sock_fprog program = {.len = (unsigned short)n, .filter = code};
        return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

_Noreturn static void end_child(struct shared *s)
{
        atomic_store(&s->done, true);
        _exit(0);
}

/* Without these two, the others cannot be tried. */
_Noreturn static void end_without_filter(struct shared *s, long number)
{
        s->codes[index_of(number)] = errno;
        end_child(s);
}

_Noreturn static void make_calls(struct shared *s)
{
        alarm(TRY_MS / 1000);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                end_without_filter(s, SYS_prctl);
        int listener = load_filter(SECCOMP_FILTER_FLAG_NEW_LISTENER);
        if (listener < 0 && load_filter(0) < 0)
                end_without_filter(s, SYS_seccomp);
        if (listener < 0)
                _exit(1);
        atomic_store(&s->listener, listener);
        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                const unsigned long *a = calls[i].arguments;
                long r = syscall(calls[i].number, a[0], a[1], a[2], 0, 0, 0);
                s->codes[i] = r < 0 && errno != EDOM ? errno : 0;
        }
        end_child(s);
}

static void answer_one(int listener)
{
        struct seccomp_notif asked = {};
        struct pollfd p = {.fd = listener, .events = POLLIN};
        const struct timespec step = {.tv_nsec = STEP_MS * 1000000L};
        int ready = poll(&p, 1, STEP_MS);

        /* It is among the calls that a filter may refuse. */
        if (ready < 0)
                ready = ppoll(&p, 1, &step, NULL);
        if (ready <= 0 || !(p.revents & POLLIN) ||
            ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0)
                return;
        struct seccomp_notif_resp answer = {.id = asked.id, .error = -EDOM};
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

/* Answers the calls that no older filter refused. Returns whether the child made all. A filter may
 * refuse wait4(), so that the child itself says when it is done. */
static bool serve(struct shared *s, pid_t pid)
{
        uint64_t end = clock_ms() + TRY_MS;

        while (!atomic_load(&s->done)) {
                int listener = atomic_load(&s->listener);
                if (waitpid(pid, NULL, WNOHANG) == pid)
                        return atomic_load(&s->done);
                if (clock_ms() > end) {
                        kill(pid, SIGKILL);
                        break;
                }
                if (listener < 0)
                        usleep(100);
                else
                        answer_one(listener);
        }
        waitpid(pid, NULL, 0);
        return atomic_load(&s->done);
}

void refused_calls_try(struct refused_calls *ret)
{
        *ret = (struct refused_calls){};
        struct shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (s == MAP_FAILED)
                return;
        atomic_store(&s->listener, -1);
        /* With one table of descriptors, the listener of the child is the caller's too. */
        long pid = syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
        if (pid == 0)
                make_calls(s);
        if (pid < 0) {
                /* Not even a fork is possible: this is the one call known to be refused. */
                ret->known = true;
                ret->codes[0] = errno;
        } else {
                ret->known = serve(s, (pid_t)pid);
                if (ret->known)
                        memcpy(ret->codes, s->codes, sizeof(ret->codes));
                int listener = atomic_load(&s->listener);
                if (listener >= 0)
                        close(listener);
        }
        munmap(s, sizeof(*s));
}

static bool is_needed(const struct refused_calls *tried, size_t i)
{
        const struct call *c = &calls[i];
        int code = tried->codes[i];

        switch (c->need) {
        case NEEDED:
                return !c->unless || tried->codes[index_of(c->unless)] == 0;
        case NEEDED_AS_ROOT:
                return getauxval(AT_EUID) == 0;
        case NEEDED_AS_USER:
                return getauxval(AT_EUID) != 0;
        case NEEDED_FOR_PYTHON:
                return code != EPERM && code != ENOSYS;
        case NEEDED_BY_LIBC:
                return code != EINVAL;
        case OPTIONAL:
                break;
        }
        return false;
}

/* Refusals that change nothing are in neither list. */
size_t refused_calls_list(const struct refused_calls *tried, bool needed, char *ret, size_t size)
{
        size_t n = 0, used = 0;

        ret[0] = '\0';
        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                bool listed = needed ? is_needed(tried, i) : calls[i].need == OPTIONAL;
                if (!listed || tried->codes[i] == 0)
                        continue;
                const char *code = strerrorname_np(tried->codes[i]);
                n++;
                used += (size_t)snprintf(ret + used, size - used, "%s%s (%s)", used ? ", " : "",
                                         calls[i].name, code ? code : "?");
                if (used >= size)
                        used = size - 1;
        }
        return n;
}
