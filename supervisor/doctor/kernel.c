/* The doctor's checks of the kernel: version, ids, namespaces, proc, filters, memfd, core dumps. */
#include "supervisor/doctor/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/mount.h"
#include "policy/limits.h"
#include "supervisor/doctor/findings.h"
#include "supervisor/monitor/cgroup/cgroup-files.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/process/child.h"

enum { TRIAL_TIMEOUT_S = 5 };

static const struct {
        const char *name;
        int flag;
} namespaces[TRIAL_NAMESPACES] = {
        [TRIAL_MOUNT] = {"mount namespace", CLONE_NEWNS},
        [TRIAL_NET] = {"net", CLONE_NEWNET},
        [TRIAL_IPC] = {"ipc", CLONE_NEWIPC},
        [TRIAL_UTS] = {"uts", CLONE_NEWUTS},
        [TRIAL_CGROUP] = {"cgroup", CLONE_NEWCGROUP},
        [TRIAL_PID] = {"pid", CLONE_NEWPID},
};

/*
 * A trial of namespaces, mounts and filters.
 *
 * A child in its own user namespace, with the id map of a template, creates the other namespaces one
 * by one, so that the report can name the one that is refused. Mounting proc needs a process in the
 * new pid namespace: a second child does the rest.
 */
static int code_of(long r)
{
        return r < 0 ? errno : 0;
}

static int try_mount(void)
{
        if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return errno;
        return code_of(mount("tmpfs", "/", "tmpfs", MS_NOSUID | MS_NODEV, "size=4k"));
}

/* The mount is not attached: the kernel checks the permission in fsmount(). */
static int try_proc(const char *subset)
{
        _cleanup_close_ int context = fsopen("proc", FSOPEN_CLOEXEC);

        if (context < 0 ||
            (subset && fsconfig(context, FSCONFIG_SET_STRING, "subset", subset, 0) < 0) ||
            fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
                return errno;
        _cleanup_close_ int mounted = fsmount(context, FSMOUNT_CLOEXEC, 0);
        return mounted < 0 ? errno : 0;
}

/* The filter makes getppid() fail, which never fails by itself. */
static int try_seccomp(void)
{
        struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EDOM),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {.len = ARRAY_SIZE(code), .filter = code};

        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
                return errno;
        return syscall(SYS_getppid) < 0 && errno == EDOM ? 0 : ENOTRECOVERABLE;
}

static int landlock_abi(void)
{
        long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

        return abi < 0 ? 0 : (int)abi;
}

/* The steps of a template's root: a copy of a device's mount, a tmpfs, and the change of the root. */
static int change_root(struct error *err)
{
        _cleanup_close_ int device = mount_clone(AT_FDCWD, "/dev/null", MOUNT_ATTR_NOSUID, err);
        if (device < 0)
                return device;
        _cleanup_close_ int root = mount_tmpfs_new(65536, 16, 0755, MOUNT_ATTR_NOSUID, err);
        if (root < 0)
                return root;
        int r = mount_over_root(root, err);
        if (r >= 0)
                r = mount_point_make(root, "dev", err);
        return r < 0 ? r : mount_become_root(root, err);
}

static void try_root(struct trial *t)
{
        struct error err = {};

        if (t->namespaces[TRIAL_MOUNT] != 0)
                return;
        t->root = -change_root(&err);
        snprintf(t->root_step, sizeof(t->root_step), "%.*s", (int)sizeof(t->root_step) - 1,
                 err.text);
}

static int try_host_name(void)
{
        return code_of(sethostname("cloister", strlen("cloister")));
}

/* In the new pid namespace. */
_Noreturn static void inner(struct trial *t, int report)
{
        /* PID 1 of a namespace ignores SIGALRM, which ends the parent. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        t->proc = try_proc(NULL);
        t->proc_subset = try_proc("pid");
        t->host_name = t->namespaces[TRIAL_UTS] == 0 ? try_host_name() : TRIAL_NOT_DONE;
        try_root(t);
        t->landlock_abi = landlock_abi();
        t->no_new_privs = code_of(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
        t->seccomp = try_seccomp();
        fd_write_all(report, t, sizeof(*t));
        _exit(0);
}

_Noreturn static void outer(struct trial *t, int go, int report)
{
        const int keep[] = {go, report};
        char byte;

        child_reset_signals();
        alarm(TRIAL_TIMEOUT_S);
        child_close_all_but(keep, ARRAY_SIZE(keep));
        if (fd_read_full(go, &byte, 1) != 1 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
                _exit(1);
        for (size_t i = 0; i < TRIAL_NAMESPACES; i++) {
                t->namespaces[i] = code_of(unshare(namespaces[i].flag));
                if (i == TRIAL_MOUNT && t->namespaces[i] == 0)
                        t->mount = try_mount();
        }
        pid_t pid = fork();
        if (pid == 0)
                inner(t, report);
        if (pid > 0)
                waitpid(pid, NULL, 0);
        _exit(0);
}

static void trial_init(struct trial *t)
{
        *t = (struct trial){
                .mount = TRIAL_NOT_DONE,
                .proc = TRIAL_NOT_DONE,
                .proc_subset = TRIAL_NOT_DONE,
                .root = TRIAL_NOT_DONE,
                .host_name = TRIAL_NOT_DONE,
        };
}

int trial_run(const struct ids *ids, struct trial *ret, struct error *err)
{
        int go[2], report[2];
        struct trial t;

        trial_init(&t);
        if (pipe2(go, O_CLOEXEC) < 0)
                return error_errno(err, errno, "trial");
        _cleanup_close_ int go_read = go[0], go_write = go[1];
        if (pipe2(report, O_CLOEXEC) < 0)
                return error_errno(err, errno, "trial");
        _cleanup_close_ int report_read = report[0], report_write = report[1];
        pid_t pid = userns_fork(CLONE_NEWUSER);
        if (pid < 0)
                return error_errno(err, -pid, "user namespace");
        if (pid == 0)
                outer(&t, go_read, report_write);
        close(take_fd(report_write));
        int r = ids_map(pid, ids, err);
        if (r >= 0)
                r = fd_write_all(go_write, "", 1);
        close(take_fd(go_write));
        ssize_t n = fd_read_full(report_read, &t, sizeof(t));
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        if (r < 0)
                return r;
        if (n != (ssize_t)sizeof(t))
                return error_set(err, EIO, "the trial of namespaces gave no answer");
        *ret = t;
        return 0;
}

/* ---- the checks ---- */

/* mount_setattr(2) came with 5.12, cgroup.kill with 5.14. */
enum { KERNEL_MAJOR = 5, KERNEL_MINOR = 12, KERNEL_MINOR_KILL = 14 };

static void check_version(struct doctor *d)
{
        struct utsname name;
        int major = 0, minor = 0;

        uname(&name);
        sscanf(name.release, "%d.%d", &major, &minor);
        enum doctor_state state = DOCTOR_EFFECTIVE;
        if (major < KERNEL_MAJOR || (major == KERNEL_MAJOR && minor < KERNEL_MINOR))
                state = DOCTOR_MISSING;
        else if (major == KERNEL_MAJOR && minor < KERNEL_MINOR_KILL)
                state = DOCTOR_DEGRADED;
        doctor_add(d, "kernel", state, true,
                   "boot a kernel of 5.14 or later (5.12 is the least that works)",
                   "Linux %s on %s", name.release, name.machine);
}

static void check_privilege(struct doctor *d, const struct ids *ids)
{
        if (ids->by_helper)
                doctor_add(
                        d, "privilege", DOCTOR_EFFECTIVE, true, NULL,
                        "rootless: each session runs as a host id of its own, from %u of your subordinate ids such as %u (chosen at each start)",
                        ids->count, ids->first);
        else if (ids->mode == SANDBOX_ROOTLESS)
                doctor_add(
                        d, "privilege", DOCTOR_EFFECTIVE, true, NULL,
                        "rootless: every session runs as your own uid %u in a user namespace of its own (%s)",
                        ids->first, ids->note);
        else
                doctor_add(
                        d, "privilege", DOCTOR_EFFECTIVE, true, NULL,
                        "%s: each session runs as a host id of its own, from %u ids such as %u (chosen at each start)",
                        ids_mode_name(ids->mode), ids->count, ids->first);
}

/* *first becomes the code unless it is set. */
static void append_failure(char *text, size_t size, int *first, const char *name, int code)
{
        size_t used = strlen(text);

        *first = *first ? *first : code;
        /* The text of a step ends with that of its error. */
        if (code != 0 && code != TRIAL_NOT_DONE)
                snprintf(text + used, size - used, strchr(name, ':') ? "%s%s" : "%s%s: %s",
                         used ? ", " : "", name, strerrordesc_np(code));
}

static void check_namespaces(struct doctor *d, const struct trial *t)
{
        char failed[400] = "";
        int first = 0;

        for (size_t i = 0; i < TRIAL_NAMESPACES; i++) {
                append_failure(failed, sizeof(failed), &first, namespaces[i].name,
                               t->namespaces[i]);
                if (i == TRIAL_MOUNT)
                        append_failure(failed, sizeof(failed), &first, "mount of a tmpfs",
                                       t->mount);
        }
        append_failure(failed, sizeof(failed), &first, t->root_step, t->root);
        if (failed[0])
                doctor_add(d, "namespaces", DOCTOR_MISSING, true, ids_namespace_hint(first),
                           "refused: %s", failed);
        else
                doctor_add(d, "namespaces", DOCTOR_EFFECTIVE, true, NULL,
                           "user, pid, mount, net, ipc, uts and cgroup, and mounts inside");
}

static void check_proc(struct doctor *d, const struct trial *t)
{
        const struct mount_proc_covers *covers = &d->system->proc_covers;
        int code = t->proc ? t->proc : t->proc_subset;
        char covered[96] = "";

        if (covers->n > 0)
                snprintf(covered, sizeof(covered), " (mounts cover %s%s)", covers->first,
                         covers->n > 1 ? " and others" : "");
        if (code == 0)
                doctor_add(d, "proc", DOCTOR_EFFECTIVE, true, NULL,
                           "a fresh one in a pid namespace, restricted with subset=pid");
        else
                doctor_add(
                        d, "proc", DOCTOR_MISSING, true,
                        "the kernel requires an unmasked /proc here: docker run --security-opt systempaths=unconfined; in a systemd unit no ProtectKernelTunables=, ProtectKernelLogs= or ProtectHostname=",
                        "no fresh /proc can be mounted: %s%s", strerrordesc_np(code), covered);
}

static void check_filters(struct doctor *d, const struct trial *t)
{
        if (t->no_new_privs == 0 && t->seccomp == 0)
                doctor_add(d, "seccomp", DOCTOR_EFFECTIVE, true, NULL,
                           "filters load and deny; no_new_privs holds");
        else
                doctor_add(
                        d, "seccomp", DOCTOR_MISSING, true,
                        "a kernel with CONFIG_SECCOMP_FILTER, and no policy that forbids seccomp(2)",
                        "no filter can be loaded: %s",
                        strerrordesc_np(t->seccomp ? t->seccomp : t->no_new_privs));
        if (t->landlock_abi > 0)
                doctor_add(d, "landlock", DOCTOR_EFFECTIVE, false, NULL, "ABI %d", t->landlock_abi);
        else
                doctor_add(
                        d, "landlock", DOCTOR_MISSING, false,
                        "boot with landlock in the lsm= list (kernel 5.13 or later); the other layers hold without it",
                        "this kernel has none, or it is off");
}

static void check_memfd(struct doctor *d)
{
        struct error error = {0};
        struct stat st;
        _cleanup_close_ int fd = fd_sealed("cloister-doctor", "", 0, &error);

        if (fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & S_IXUSR))
                doctor_add(d, "memfd", DOCTOR_EFFECTIVE, true, NULL,
                           "sealed memory files can be executed");
        else
                doctor_add(d, "memfd", DOCTOR_MISSING, true, "sysctl vm.memfd_noexec=0 (or 1)",
                           "programs cannot run from sealed memory: %s",
                           fd < 0 ? error.text : "it is not executable");
}

/* RLIMIT_CORE 1 stops a pipe handler. No limit stops a handler that starts with @, a socket (Linux
 * 6.16). */
static void check_core_pattern(struct doctor *d)
{
        char pattern[256] = "";

        cgroup_read(AT_FDCWD, "/proc/sys/kernel/core_pattern", pattern, sizeof(pattern));
        pattern[strcspn(pattern, "\n")] = '\0';
        doctor_add(d, "core dumps", pattern[0] == '@' ? DOCTOR_DEGRADED : DOCTOR_EFFECTIVE, false,
                   "sysctl kernel.core_pattern=core, or a handler that starts with |",
                   pattern[0] == '@'
                           ? "a sandbox's memory may go to the socket of core_pattern \"%s\""
                           : "none leaves a sandbox (core_pattern \"%s\")",
                   pattern);
}

static void take_results(struct doctor_system *system, const struct trial *t)
{
        system->userns = 0;
        system->mounting = t->mount;
        system->proc = t->proc ? t->proc : t->proc_subset;
        system->root = t->root;
        system->landlock = t->landlock_abi;
        system->others = 0;
        for (size_t i = 0; i < TRIAL_NAMESPACES && system->others == 0; i++)
                system->others = t->namespaces[i];
}

static void check_calls(struct doctor *d)
{
        struct refused_calls *calls = &d->system->calls;
        char refused[500], optional[500];

        refused_calls_try(calls);
        size_t n = refused_calls_list(calls, true, refused, sizeof(refused));
        size_t n_optional = refused_calls_list(calls, false, optional, sizeof(optional));
        if (!calls->known)
                doctor_add(d, "system calls", DOCTOR_EFFECTIVE, false, NULL,
                           "this kernel cannot tell which calls a filter refuses");
        else if (n > 0)
                doctor_add(d, "system calls", DOCTOR_MISSING, true,
                           "a seccomp profile that allows them: examples/containers/seccomp.json",
                           "a seccomp filter around this process refuses %s", refused);
        else if (n_optional > 0)
                doctor_add(d, "system calls", DOCTOR_DEGRADED, false,
                           "a seccomp profile that allows them: examples/containers/seccomp.json",
                           "a seccomp filter around this process refuses %s", optional);
        else
                doctor_add(d, "system calls", DOCTOR_EFFECTIVE, true, NULL,
                           "no filter refuses one that makes a sandbox");
}

static uint32_t ids_needed(void)
{
        struct sysinfo info;

        if (sysinfo(&info) < 0)
                return 2;
        return limits_sessions_max((uint64_t)info.totalram * info.mem_unit) + 2;
}

void doctor_check_kernel(struct doctor *d)
{
        struct error error = {0};
        struct trial trial;
        struct ids ids;

        check_version(d);
        check_calls(d);
        if (ids_choose(0, 0, ids_needed(), &ids, &error) < 0) {
                doctor_add(d, "privilege", DOCTOR_MISSING, true, NULL, "%s", error.text);
                d->system->ordinary = geteuid() != 0;
                d->system->userns = error.code;
        } else {
                check_privilege(d, &ids);
                d->system->ordinary = ids.mode == SANDBOX_ROOTLESS;
                d->system->own_id = ids.count == 1;
                if (trial_run(&ids, &trial, &error) < 0) {
                        doctor_add(d, "namespaces", DOCTOR_MISSING, true,
                                   ids_namespace_hint(error.code), "%s", error.text);
                        d->system->userns = error.code;
                } else {
                        take_results(d->system, &trial);
                        check_namespaces(d, &trial);
                        check_proc(d, &trial);
                        check_filters(d, &trial);
                }
        }
        check_memfd(d);
        check_core_pattern(d);
}
