/*
 * The start of a template's process.
 *
 * Theory of operation. Joining a pid namespace takes effect for children only, and only the parent of
 * the template gets its exit status. So a child joins the namespaces and clones the template with
 * CLONE_PARENT. The template becomes uid 0 of its user namespace BEFORE the exec, which keeps
 * capabilities for that uid only.
 */
#include "supervisor/monitor/template/template-launch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "rpc/sandbox-messages.h"
#include "supervisor/monitor/process/child.h"
#include "supervisor/monitor/process/time-slice.h"

/* For a child that joins two namespaces and clones; then for its end. */
enum { JOIN_MS = 5000, END_MS = 1000 };

static void fail(int control, const char *what)
{
        struct template_message failed = {.kind = TEMPLATE_FAILED};

        error_errno(&failed.error, errno, "template: %s", what);
        fd_send(control, &failed, sizeof(failed), NULL, 0, 0);
        _exit(1);
}

/* A template runs code of the image: it gets no descriptor of our client or terminal. */
static int place_descriptors(const struct template_launch *how, int *init)
{
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        *init = fcntl(how->init, F_DUPFD_CLOEXEC, 64);
        if (null < 0 || *init < 0 || dup2(null, STDIN_FILENO) < 0 ||
            dup2(null, STDOUT_FILENO) < 0 || dup2(how->messages, STDERR_FILENO) < 0 ||
            dup2(how->control, TEMPLATE_CONTROL_FD) < 0 ||
            fd_close_range(TEMPLATE_CONTROL_FD + 1, (unsigned int)*init - 1) < 0 ||
            fd_close_range((unsigned int)*init + 1, ~0U) < 0)
                return -errno;
        return 0;
}

/* Never above the present hard limit. */
static int set_rlimit(int resource, uint64_t most)
{
        struct rlimit now;

        if (getrlimit((__rlimit_resource_t)resource, &now) < 0)
                return -errno;
        rlim_t limit = most < now.rlim_max ? most : now.rlim_max;
        struct rlimit want = {limit, limit};
        if (most == UINT64_MAX)
                return 0;
        return setrlimit((__rlimit_resource_t)resource, &want) < 0 ? -errno : 0;
}

static int set_rlimits(const struct template_rlimits *l)
{
        int r = set_rlimit(RLIMIT_NOFILE, l->files);

        if (r >= 0)
                r = set_rlimit(RLIMIT_DATA, l->data);
        if (r >= 0)
                r = set_rlimit(RLIMIT_FSIZE, l->file_size);
        if (r >= 0)
                r = set_rlimit(RLIMIT_NPROC, l->processes);
        return r;
}

static void become_template(const struct template_launch *how)
{
        const char *const arguments[] = {"cloister-template", NULL};
        char *const environment[] = {NULL};
        int init = -1;

        if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
                fail(how->control, "become uid 0 of its user namespace");
        /* Fails where only our own gid is mapped: then setgroups() is denied
         * (user_namespaces(7)). With a map by newgidmap it works. */
        (void)setgroups(0, NULL);
        if (set_rlimits(&how->rlimits) < 0)
                fail(how->control, "set its resource limits");
        time_slice_shorten();
        if (place_descriptors(how, &init) < 0)
                fail(how->control, "place descriptors");
        execveat(init, "", (char *const *)arguments, environment, AT_EMPTY_PATH);
        fail(TEMPLATE_CONTROL_FD, "exec cloister-init from a sealed memfd");
}

/* The group's files still belong to us. If it is refused, the template stays in our group. */
static long clone_template(int cgroup)
{
        struct clone_args into = {.flags = CLONE_PARENT | CLONE_INTO_CGROUP,
                                  .cgroup = (uint64_t)cgroup};
        long pid = cgroup < 0 ? -1 : syscall(SYS_clone3, &into, sizeof(into));

        return pid >= 0 ? pid : syscall(SYS_clone, CLONE_PARENT, NULL, NULL, NULL, NULL);
}

static void join_and_clone(const struct stub *stub, const struct template_launch *how, int report)
{
        if (setns(stub_user_namespace(stub), CLONE_NEWUSER) < 0)
                fail(how->control, "join its user namespace");
        if (setns(stub_pid_namespace(stub), CLONE_NEWPID) < 0)
                fail(how->control, "join its pid namespace");
        /* The template starts in it. It hides nothing, because its offsets are zero; the sandbox then
         * shares no namespace with the host. A kernel may lack this kind. */
        (void)unshare(CLONE_NEWTIME);
        long pid = clone_template(how->cgroup);
        if (pid < 0)
                fail(how->control, "clone");
        if (pid == 0)
                become_template(how);
        pid_t known = (pid_t)pid;
        _exit(fd_write_all(report, &known, sizeof(known)) < 0);
}

pid_t template_launch(const struct stub *stub, struct children *children,
                      const struct template_launch *how, struct error *err)
{
        int ends[2];
        pid_t pid = 0;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return error_errno(err, errno, "pipe");
        _cleanup_close_ int report = ends[0];
        _cleanup_close_ int report_end = ends[1];
        pid_t joiner = fork();
        if (joiner < 0)
                return error_errno(err, errno, "fork");
        if (joiner == 0)
                join_and_clone(stub, how, report_end);
        close(take_fd(report_end));
        ssize_t n = child_read_in_time(report, &pid, sizeof(pid), JOIN_MS);
        /* With a pid, or without one that will come, it has nothing more to do. */
        child_wait_in_time(joiner, n < 0 ? 0 : END_MS, NULL);
        /* The error is in a message on the control socket. */
        if (n != sizeof(pid))
                return error_set(err, ECHILD, "the template did not start");
        int r = children_add(children, pid);
        return r < 0 ? error_errno(err, -r, "template") : pid;
}
