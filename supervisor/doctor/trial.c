/*
 * A trial of namespaces, mounts and filters.
 *
 * A child in its own user namespace, with the id map of a template, creates the other namespaces one
 * by one, so that the report can name the one that is refused. Mounting proc needs a process in the
 * new pid namespace: a second child does the rest.
 */
#include "supervisor/doctor/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/mount.h"
#include "supervisor/monitor/ids/userns.h"
#include "supervisor/monitor/process/child.h"

enum { TRIAL_TIMEOUT_S = 5 };

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

        if (t->mount_namespace != 0)
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
        t->host_name = t->uts_namespace == 0 ? try_host_name() : TRIAL_NOT_DONE;
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
        t->mount_namespace = code_of(unshare(CLONE_NEWNS));
        if (t->mount_namespace == 0)
                t->mount = try_mount();
        t->net_namespace = code_of(unshare(CLONE_NEWNET));
        t->ipc_namespace = code_of(unshare(CLONE_NEWIPC));
        t->uts_namespace = code_of(unshare(CLONE_NEWUTS));
        t->cgroup_namespace = code_of(unshare(CLONE_NEWCGROUP));
        t->pid_namespace = code_of(unshare(CLONE_NEWPID));
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
