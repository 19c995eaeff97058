/*
 * A session between clone and exec.
 *
 * Theory of operation. The template sleeps in clone3 (CLONE_VFORK) and shares its memory with the
 * new PID 1 (CLONE_VM), so that no page table is copied for a process that only builds a tree and
 * execs. It runs on the template's own stack, below what is in use there: interpreters tell by the
 * stack's bounds how deep they are. CLONE_PARENT makes the monitor the parent of PID 1: it alone
 * gets the exit status. PID 1 then, in order:
 *
 *   1. leaves our process group; takes a cgroup namespace once it is in its cgroup, whose root is
 * the cgroup that it is made in: clone3 would make it our own. Into a cgroup of version 2 it is
 * cloned where the kernel lets us (CLONE_INTO_CGROUP); into another the monitor puts it, and it
 * waits for that word (step 3 comes first then): what it writes to is charged to it from then on.
 *   2. sets resource limits, drops what bounds capabilities, and forks the worker: with libc's
 * fork(), which registers rseq again (CLONE_VM dropped it).
 *   3. writes its own single-id map; the template lent it the id by its effective uid, and it MUST
 * be dumpable here. Tells the monitor that it is there; the kernel adds its pid. The monitor looks
 * whether it is the one that was asked for, and in its cgroup.
 *   4. takes propagation off, sets the namespace limits to 0 through the template's whole /proc,
 * which MUST still be visible, and then covers it with a restricted one.
 *   5. mounts /tmp, /workspace and /dev/shm, and on them the host directories that belong there,
 * which the template has where they are about to be covered; brings lo up if the profile says so.
 *   6. makes the worker the kernel's first victim, becomes uid 1000 and gives up every capability,
 * for good. PDEATHSIG comes after, since a change of ids clears it. Makes /workspace/out and tells the
 * worker.
 *   7. waits for the monitor's word where it did not before: what is exec'd next releases the
 * worker, and nothing of the guest may run in a process that the monitor does not know.
 *   8. execs init, which is non-dumpable and filtered before it releases the worker.
 *
 * Beside that the worker fetches the pages that it is going to write (sandbox-init/setup/pages.h),
 * which takes longer than the mounts, and waits for step 6. It then gives up its capabilities too
 * and takes its belts, and the interpreter's hooks and our own Python run while init starts; its
 * channel reads nothing, so that there is no byte of the guest's to run, before init has released
 * it (sandbox-init/worker/channel.h). Its memory is no longer the template's then; PID 1's is until
 * the exec, and what runs in the worker meanwhile is what runs in the template too.
 */
#include "sandbox-init/setup/session.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/filter-load.h"
#include "base/landlock.h"
#include "base/mount.h"
#include "sandbox-init/setup/layout.h"
#include "sandbox-init/setup/pages.h"
#include "sandbox-init/setup/session-bounds.h"

/* Not "mnt": a detached mount counts as a mount namespace, so that one comes after our last mount.
 */
static const char *const namespace_limits[] = {
        "user", "pid", "net", "ipc", "uts", "time",
};
/* "cgroup" neither: one comes once we are in ours. */
static const char *const late_limits[] = {"mnt", "cgroup"};

/* What the mounts allow, once more. */
static const struct landlock_rule landlock_rules[] = {
        {"/", LANDLOCK_EXECUTE | LANDLOCK_READ},
        {"/dev", LANDLOCK_READ | LANDLOCK_WRITE_FILE | LANDLOCK_TRUNCATE | LANDLOCK_DEVICE_IOCTL},
        {"/proc", LANDLOCK_READ | LANDLOCK_WRITE_FILE},
        {"/dev/shm", LANDLOCK_ALL},
        {"/tmp", LANDLOCK_ALL},
        {"/workspace", LANDLOCK_ALL},
};

static int write_file(const char *path, const char *text, struct error *err)
{
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return error_errno(err, errno, "open %s", path);
        int r = fd_write_all(fd, text, strlen(text));
        return r < 0 ? error_errno(err, -r, "write %s to %s", text, path) : 0;
}

static int map_ids(const struct session *s, struct error *err)
{
        char map[48];

        snprintf(map, sizeof(map), "%d %u 1", SANDBOX_UID, s->plan.id);
        int r = write_file("/proc/self/setgroups", "deny", err);
        if (r >= 0)
                r = write_file("/proc/self/uid_map", map, err);
        if (r >= 0)
                r = write_file("/proc/self/gid_map", map, err);
        return r;
}

static int announce(const struct session *s, struct error *err)
{
        struct template_message here = {.kind = SESSION_HERE};

        int r = map_ids(s, err);
        if (r < 0)
                return r;
        r = fd_send(TEMPLATE_CONTROL_FD, &here, sizeof(here), NULL, 0, 0);
        return r < 0 ? error_errno(err, -r, "tell the monitor") : 0;
}

static int await_go(struct error *err)
{
        struct template_message go;

        ssize_t n = fd_receive(TEMPLATE_CONTROL_FD, &go, sizeof(go), NULL, NULL, NULL, 0);
        if (n != sizeof(go) || go.kind != SESSION_GO)
                return error_set(err, ECANCELED, "the monitor gave it up");
        return 0;
}

/* late: open, to be written once the last mount is made; the files are out of sight by then. */
static int cover_proc(int root, int late[ARRAY_SIZE(late_limits)], struct error *err)
{
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return error_errno(err, errno, "make mounts private");
        for (size_t i = 0; i < ARRAY_SIZE(namespace_limits); i++) {
                char path[64];
                snprintf(path, sizeof(path), "/proc/sys/user/max_%s_namespaces",
                         namespace_limits[i]);
                int r = write_file(path, "0", err);
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < ARRAY_SIZE(late_limits); i++) {
                char path[64];
                snprintf(path, sizeof(path), "/proc/sys/user/max_%s_namespaces", late_limits[i]);
                late[i] = open(path, O_WRONLY | O_CLOEXEC);
                if (late[i] < 0)
                        return error_errno(err, errno, "open %s", path);
        }

        _cleanup_close_ int proc = mount_proc_new(true, err);
        int r = proc < 0 ? proc : mount_attach(proc, root, "proc", err);
        return r < 0 ? error_context(err, "proc") : 0;
}

static int write_late_limits(const int late[ARRAY_SIZE(late_limits)], struct error *err)
{
        for (size_t i = 0; i < ARRAY_SIZE(late_limits); i++) {
                if (write(late[i], "0", 1) != 1)
                        return error_errno(err, errno, "limit %s namespaces", late_limits[i]);
        }
        return 0;
}

static bool waits_early(const struct session *s)
{
        return s->plan.waits && !s->is_placed;
}

static int enter_cgroup(const struct session *s, struct error *err)
{
        int r = waits_early(s) ? await_go(err) : 0;

        if (r >= 0 && s->plan.waits && syscall(SYS_unshare, CLONE_NEWCGROUP) < 0)
                return error_errno(err, errno, "unshare its cgroup namespace");
        return r;
}

static int mount_own(const struct limits *l, int root, struct error *err)
{
        int r = mount_tmpfs_at(root, "tmp", l->tmp, l->tmp_inodes, 01777, err);
        if (r >= 0)
                r = mount_tmpfs_at(root, "workspace", l->workspace, l->workspace_inodes, 01777,
                                   err);
        if (r >= 0)
                r = mount_tmpfs_at(root, "dev/shm", l->shm, l->shm_inodes, 01777, err);
        return r;
}

static int attach_late(int mount, int root, const char *path, struct error *err)
{
        int r = mount_point_make(root, path, err);
        return r < 0 ? r : mount_attach(mount, root, path, err);
}

static int mount_writable(const struct session *s, int root, struct error *err)
{
        const struct template_plan *plan = s->template;
        int late[TEMPLATE_MOUNTS_MAX];
        int r = 0;

        for (uint32_t i = 0; i < plan->n_mounts && r >= 0; i++) {
                const char *target = plan->mounts[i].target;
                late[i] = -1;
                if (layout_is_late(target))
                        r = late[i] = mount_clone_tree(root, target + 1, 0, err);
                if (r < 0)
                        error_context(err, "mount on %s", target);
        }
        if (r >= 0)
                r = mount_own(&s->plan.limits, root, err);
        for (uint32_t i = 0; i < plan->n_mounts && r >= 0; i++) {
                if (late[i] >= 0)
                        r = attach_late(late[i], root, plan->mounts[i].target + 1, err);
                if (r < 0)
                        error_context(err, "mount on %s", plan->mounts[i].target);
        }
        /* PID 1 holds none of them at its exec: all are O_CLOEXEC. */
        return r;
}

/* The kernel adds 127.0.0.1 and ::1 by itself. */
static int bring_lo_up(struct error *err)
{
        struct ifreq request = {.ifr_name = "lo"};

        _cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return error_errno(err, errno, "a socket for lo");
        request.ifr_flags = IFF_UP;
        if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
                return error_errno(err, errno, "bring lo up");
        return 0;
}

static int confine(const struct template_plan *plan, struct error *err)
{
        struct landlock_rule rules[ARRAY_SIZE(landlock_rules) + TEMPLATE_MOUNTS_MAX];
        size_t n = ARRAY_SIZE(landlock_rules);

        memcpy(rules, landlock_rules, sizeof(landlock_rules));
        for (uint32_t i = 0; i < plan->n_mounts; i++) {
                const struct template_mount *mount = &plan->mounts[i];
                rules[n++] = (struct landlock_rule){
                        mount->target,
                        mount->writable ? LANDLOCK_ALL : LANDLOCK_EXECUTE | LANDLOCK_READ};
        }
        return landlock_confine(rules, n, plan->loopback, err);
}

/* Where PID 1 fails it ends, and all of its namespace with it. */
static int await_mounts(int release, struct error *err)
{
        char byte;

        if (read(release, &byte, 1) != 1)
                return error_set(err, ECANCELED, "the session was given up");
        return 0;
}

/* The worker: only what it may hold, its belts, and back to the interpreter. */
static int enter_worker(struct session *s, int release, struct error *err)
{
        pages_fetch();
        int r = await_mounts(release, err);
        if (r >= 0)
                r = bounds_become_user(err);
        if (r < 0)
                return r;
        if (chdir(LAYOUT_WORKSPACE) < 0)
                return error_errno(err, errno, "enter " LAYOUT_WORKSPACE);
        int null = open("/dev/null", O_RDONLY);
        if (null < 0 || dup2(null, 0) < 0 || dup2(s->fds[SESSION_FD_STDOUT], 1) < 0 ||
            dup2(s->fds[SESSION_FD_STDERR], 2) < 0)
                return error_errno(err, errno, "place stdin, stdout and stderr");
        s->rpc_fd = fcntl(s->fds[SESSION_FD_RPC], F_DUPFD_CLOEXEC,
                          (int)s->plan.limits.open_files - LAYOUT_RPC_FD_MARGIN);
        if (s->rpc_fd < 0)
                return error_errno(err, errno, "place the channel");
        s->release_fd = fcntl(release, F_DUPFD_CLOEXEC, s->rpc_fd + 1);
        int filter = fcntl(LAYOUT_WORKER_FILTER_FD, F_DUPFD_CLOEXEC, s->rpc_fd + 2);
        if (filter < 0 || s->release_fd < 0 || syscall(SYS_close_range, 3, s->rpc_fd - 1, 0) < 0)
                return error_errno(err, errno, "close the template's descriptors");
        r = confine(s->template, err);
        if (r >= 0)
                r = filter_load(filter, err);
        if (r >= 0 && syscall(SYS_close_range, s->release_fd + 1, ~0U, 0) < 0)
                r = error_errno(err, errno, "close_range");
        return r;
}

static void complain_and_exit(const struct error *err)
{
        fd_write_all(STDERR_FILENO, err->text, strlen(err->text));
        fd_write_all(STDERR_FILENO, "\n", 1);
        _exit(127);
}

static int place_init_descriptors(struct session *s, int release, int *init, struct error *err)
{
        struct {
                int from, to;
        } list[] = {
                {s->fds[SESSION_FD_REPORT], INIT_REPORT_FD},
                {release, INIT_RELEASE_FD},
                {s->fds[SESSION_FD_CONTROL], INIT_CONTROL_FD},
                {LAYOUT_INIT_FILTER_FD, INIT_FILTER_FD},
        };

        *init = fcntl(LAYOUT_INIT_FD, F_DUPFD_CLOEXEC, 64);
        for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
                list[i].from = fcntl(list[i].from, F_DUPFD_CLOEXEC, 64);
                if (list[i].from < 0 || *init < 0)
                        return error_errno(err, errno, "move init's descriptors");
        }
        for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
                if (dup2(list[i].from, list[i].to) < 0)
                        return error_errno(err, errno, "place init's descriptors");
        }
        /* init holds none of the worker's descriptors, or their ends would never be seen. */
        syscall(SYS_close_range, 0, 2, 0);
        syscall(SYS_close_range, INIT_FILTER_FD + 1, 63, 0);
        return 0;
}

static int become_init(struct session *s, int release, struct error *err)
{
        const char *const arguments[] = {"init", NULL};
        char *const environment[] = {NULL};
        int init = -1;

        /* Nothing releases the worker but what is exec'd here. */
        int r = waits_early(s) ? 0 : await_go(err);
        if (r >= 0)
                r = place_init_descriptors(s, release, &init, err);
        if (r < 0)
                return r;
        execveat(init, "", (char *const *)arguments, environment, AT_EMPTY_PATH);
        return error_errno(err, errno, "exec cloister-init");
}

/* What the worker inherits. */
static int enter(struct session *s, struct error *err)
{
        /* Out of the monitor's process group, which kill(0, …) would reach, and away from any
         * terminal. */
        if (setsid() < 0)
                return error_errno(err, errno, "setsid");
        int r = waits_early(s) ? announce(s, err) : 0;
        if (r >= 0)
                r = enter_cgroup(s, err);
        if (r >= 0)
                r = bounds_set_limits(&s->plan, err);
        if (r >= 0)
                r = bounds_drop_capabilities(err);
        return r;
}

/* The kernel's first victim; raising needs no privilege, lowering would. By us, who have the time,
 * and before we change our ids: /proc shows a process to those only that have the same ones. */
static int expose(pid_t worker, struct error *err)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)worker);
        return write_file(path, "1000", err);
}

static int build(struct session *s, pid_t worker, struct error *err)
{
        int r = waits_early(s) ? 0 : announce(s, err);
        if (r < 0)
                return r;

        _cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root < 0)
                return error_errno(err, errno, "open /");
        /* Those of our descriptors that this leaves open are O_CLOEXEC. */
        int late[ARRAY_SIZE(late_limits)] = {-1, -1};
        r = cover_proc(root, late, err);
        if (r >= 0)
                r = mount_writable(s, root, err);
        if (r >= 0 && s->template->loopback)
                r = bring_lo_up(err);
        if (r >= 0)
                r = write_late_limits(late, err);
        fd_close_many(late, ARRAY_SIZE(late));
        if (r >= 0)
                r = expose(worker, err);
        if (r >= 0)
                r = bounds_become_user(err);
        /* The change of ids cleared it. */
        if (r >= 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                r = error_errno(err, errno, "parent death signal");
        /* A directory of the host's may be there that has it, or that does not take it. */
        if (r >= 0)
                mkdirat(AT_FDCWD, LAYOUT_OUT, 0755);
        return r;
}

/* PID 1 beside its worker. Does not return. */
static void finish(struct session *s, pid_t worker, int release)
{
        int r = build(s, worker, &s->error);
        if (r >= 0)
                r = fd_write_all(release, "m", 1);
        if (r < 0 && !error_is_set(&s->error))
                error_errno(&s->error, -r, "tell the worker");
        if (r >= 0) {
                become_init(s, release, &s->error);
        }
        _exit(1);
}

/* Returns in the worker only. */
static void first_process(struct session *s)
{
        int release[2];

        if (enter(s, &s->error) < 0)
                _exit(1);
        if (pipe2(release, O_CLOEXEC) < 0) {
                error_errno(&s->error, errno, "pipe");
                _exit(1);
        }
        /* The likeliest cause: the fork() of an interpreter's own libc has another errno. */
        errno = EAGAIN;
        pid_t worker = fork();
        if (worker == 0) {
                struct error error = {};
                close(release[1]);
                if (enter_worker(s, release[0], &error) < 0)
                        complain_and_exit(&error);
                return;
        }
        if (worker < 0)
                error_errno(&s->error, errno, "fork the worker");
        else
                finish(s, worker, release[1]);
        _exit(1);
}

/*
 * clone3 whose child calls fn and shares our stack as vfork() has it: we sleep until it is done. It
 * stays below all that is ours, the 128 bytes included that a function of x86-64 may use below its
 * stack pointer. Where fn returns, in a copy of both, so does this, with 0.
 */
static long clone3_call(struct clone_args *args, void (*fn)(struct session *s), struct session *s)
{
#if defined(__x86_64__)
        long r = SYS_clone3, size = sizeof(*args);
        register void (*fn_register)(struct session *) __asm__("r8") = fn;
        register struct session *session_register __asm__("r9") = s;

        __asm__ volatile(
                "syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\tmov %%rsp, %%r12\n\tsub $128, %%rsp\n\tand $-16, %%rsp\n\tmov %%r9, %%rdi\n\tcall *%%r8\n\tmov %%r12, %%rsp\n\txor %%eax, %%eax\n\t1:"
                : "+a"(r), "+D"(args), "+S"(size), "+r"(fn_register), "+r"(session_register)
                :
                : "rcx", "rdx", "r10", "r11", "r12", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5",
                  "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
                  "xmm15", "memory", "cc");
        return r;
#elif defined(__aarch64__)
        register long r __asm__("x0") = (long)args;
        register long size __asm__("x1") = sizeof(*args);
        register long number __asm__("x8") = SYS_clone3;
        register void (*fn_register)(struct session *) __asm__("x10") = fn;
        register struct session *session_register __asm__("x11") = s;

        __asm__ volatile("svc #0\n\tcbnz x0, 1f\n\tmov x0, x11\n\tblr x10\n\tmov x0, #0\n\t1:"
                         : "+r"(r), "+r"(size), "+r"(number), "+r"(fn_register),
                           "+r"(session_register)
                         :
                         : "x2", "x3", "x4", "x5", "x6", "x7", "x9", "x12", "x13", "x14", "x15",
                           "x16", "x17", "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7",
                           "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17",
                           "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27",
                           "v28", "v29", "v30", "v31", "memory", "cc");
        return r;
#else
#error "clone3 on a shared stack is written for x86_64 and aarch64 only"
#endif
}

/* Where the kernel or its files' owner refuses the cgroup, the monitor finds PID 1 outside it and
 * moves it. */
static long clone_first_process(struct clone_args *args, struct session *s)
{
        s->is_placed = s->plan.cgroup;
        if (s->is_placed) {
                struct clone_args into = *args;
                into.flags |= CLONE_INTO_CGROUP;
                into.cgroup = (uint64_t)s->fds[SESSION_FD_CGROUP];
                long pid = clone3_call(&into, first_process, s);
                if (pid >= 0)
                        return pid;
                s->is_placed = false;
        }
        return clone3_call(args, first_process, s);
}

int session_clone(struct session *s)
{
        struct clone_args args = {
                .flags = CLONE_VM | CLONE_VFORK | CLONE_PARENT | CLONE_NEWUSER | CLONE_NEWPID |
                         CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS |
                         (s->has_network ? 0 : CLONE_NEWNET),
                /* CLONE_PARENT takes the exit signal of the caller, and 0 is what it wants to see
                   here. */
                .exit_signal = 0,
        };

        if (!s->plan.waits)
                args.flags |= CLONE_NEWCGROUP;
        s->error = (struct error){};
        long pid = clone_first_process(&args, s);
        if (pid == 0)
                return 1;
        if (pid < 0)
                return error_errno(&s->error, (int)-pid, "clone3");
        return error_is_set(&s->error) ? -s->error.code : 0;
}
