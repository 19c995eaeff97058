/* Asks the filters around this process about single system calls. */
#include "supervisor/doctor/calls.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum { TRY_MS = 5000, STEP_MS = 20 };

#define NEW_SESSION                                                                                \
        (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET)

static struct clone_args clone3_arguments = {.flags = NEW_SESSION, .exit_signal = SIGCHLD};

/* The first arguments are those that filters compare. None of the calls is carried out. */
static const struct call {
        const char *name;
        long number;
        bool needed;
        unsigned long arguments[3];
} calls[] = {
        {"clone", SYS_clone, true, {CLONE_NEWUSER | CLONE_NEWPID | SIGCHLD}},
        {"clone3", SYS_clone3, true, {(unsigned long)&clone3_arguments, sizeof(clone3_arguments)}},
        {"unshare", SYS_unshare, true, {CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS}},
        {"setns", SYS_setns, true, {0, CLONE_NEWUSER}},
        {"mount", SYS_mount, true, {0, (unsigned long)"/"}},
        {"umount2", SYS_umount2, true, {(unsigned long)".", MNT_DETACH}},
        {"pivot_root", SYS_pivot_root, true, {(unsigned long)".", (unsigned long)"."}},
        {"fsopen", SYS_fsopen, true, {(unsigned long)"tmpfs"}},
        {"fsconfig", SYS_fsconfig, true, {0, FSCONFIG_CMD_CREATE}},
        {"fsmount", SYS_fsmount, true, {0}},
        {"move_mount", SYS_move_mount, true, {0}},
        {"open_tree", SYS_open_tree, true, {0, (unsigned long)"/dev/null", OPEN_TREE_CLONE}},
        {"mount_setattr", SYS_mount_setattr, true, {0}},
        {"execveat", SYS_execveat, true, {0}},
        {"memfd_create", SYS_memfd_create, true, {(unsigned long)"doctor", MFD_ALLOW_SEALING}},
        {"pidfd_open", SYS_pidfd_open, true, {1}},
        {"capset", SYS_capset, true, {0}},
        {"setresuid", SYS_setresuid, true, {0}},
        {"setresgid", SYS_setresgid, true, {0}},
        {"statx", SYS_statx, true, {0}},
        {"sethostname", SYS_sethostname, false, {(unsigned long)"cloister", 8}},
        {"close_range", SYS_close_range, false, {3, ~0U}},
        {"openat2", SYS_openat2, false, {0}},
        {"landlock_create_ruleset", SYS_landlock_create_ruleset, false, {0}},
};
static_assert(ARRAY_SIZE(calls) <= DOCTOR_CALLS_MAX, "room for all");

/* Shared with the child, as its table of descriptors is. */
struct shared {
        atomic_int listener; /* the number of the descriptor; -1: none yet */
        int codes[DOCTOR_CALLS_MAX];
};

size_t doctor_n_calls(void)
{
        return ARRAY_SIZE(calls);
}

const char *doctor_call_name(size_t i)
{
        return calls[i].name;
}

bool doctor_call_is_needed(size_t i)
{
        return calls[i].needed;
}

static int load_filter(void)
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
        return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                            &program);
}

_Noreturn static void make_calls(struct shared *s)
{
        alarm(TRY_MS / 1000);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                _exit(1);
        int listener = load_filter();
        if (listener < 0)
                _exit(1);
        atomic_store(&s->listener, listener);
        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                const unsigned long *a = calls[i].arguments;
                long r = syscall(calls[i].number, a[0], a[1], a[2], 0, 0, 0);
                s->codes[i] = r < 0 && errno != EDOM ? errno : 0;
        }
        _exit(0);
}

/* Answers the calls that no older filter refused. Returns whether the child made all. */
static bool serve(struct shared *s, pid_t pid)
{
        uint64_t end = clock_ms() + TRY_MS;
        int status = -1;

        while (waitpid(pid, &status, WNOHANG) == 0) {
                struct seccomp_notif asked = {};
                int listener = atomic_load(&s->listener);
                struct pollfd p = {.fd = listener, .events = POLLIN};
                if (clock_ms() > end) {
                        kill(pid, SIGKILL);
                        waitpid(pid, NULL, 0);
                        return false;
                }
                if (listener < 0)
                        usleep(100);
                else if (poll(&p, 1, STEP_MS) <= 0)
                        continue;
                if (!(p.revents & POLLIN) || ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0)
                        continue;
                struct seccomp_notif_resp answer = {.id = asked.id, .error = -EDOM};
                ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
        }
        return status == 0;
}

void doctor_calls_try(struct doctor_calls *ret)
{
        *ret = (struct doctor_calls){};
        struct shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (s == MAP_FAILED)
                return;
        atomic_store(&s->listener, -1);
        /* With one table of descriptors, the listener of the child is the doctor's too. */
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

size_t doctor_calls_list(const struct doctor_calls *tried, bool needed, char *ret, size_t size)
{
        size_t n = 0, used = 0;

        ret[0] = '\0';
        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                if (calls[i].needed != needed || tried->codes[i] == 0)
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
