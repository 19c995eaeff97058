/*
 * The processes in a leaf: moved there by us, or cloned into it by a template.
 *
 * Theory of operation. The kernel lets a process clone into a version 2 group (CLONE_INTO_CGROUP)
 * if it may write cgroup.procs of that group and of the nearest common ancestor of both
 * (cgroups(7)). So the template is in a leaf beside those of its sessions, and owns these two
 * files. At the clone it has the effective ids of the session, but capabilities over files that its
 * user namespace maps: both owner and group of the files must be mapped there.
 *
 * The template names the group by a descriptor of its directory. On the host's own mount ".." would
 * lead from there to the host's root, whatever the root of the template is. Therefore its
 * descriptors belong to a read-only, detached mount of our parent directory: nothing is above it,
 * and cgroup.procs cannot be written through it, since for a clone the kernel checks the mode of
 * the file only. Making this mount needs privilege over a mount namespace, which a child has in its
 * own.
 *
 * Without CAP_DAC_OVERRIDE we cannot write a file that we gave away: we take ownership back first.
 */
#include "supervisor/monitor/cgroup/cgroup-members.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/mount.h"
#include "supervisor/monitor/cgroup/cgroup-tree.h"
#include "supervisor/monitor/ids/userns.h"
#include "supervisor/monitor/process/child.h"

static const char members[] = "cgroup.procs";

static bool is_version_2(const struct cgroups *cgroups)
{
        return cgroups->operations && cgroups->operations->version == CGROUP_V2;
}

static int give(int dir, uid_t uid, gid_t gid)
{
        /* The owner is the effective uid already. */
        if (uid == geteuid())
                return 0;
        return fchownat(dir, members, uid, gid, 0) < 0 ? -errno : 0;
}

static void send_mount(int socket, const char *path)
{
        const uint64_t attributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                    MOUNT_ATTR_NOEXEC;
        struct error ignored = {};
        char byte = 0;

        prctl(PR_SET_DUMPABLE, 0);
        int mount = mount_clone(AT_FDCWD, path, attributes, &ignored);
        _exit(mount < 0 || fd_send(socket, &byte, 1, &mount, 1, 0) < 0);
}

enum { MOUNT_SECONDS = 5 };

/* Returns the descriptor, or -1. */
static int make_mount(const char *path)
{
        int pair[2], mount = -1;
        size_t count = 1;
        char byte;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -1;
        _cleanup_close_ int ours = pair[0];
        _cleanup_close_ int theirs = pair[1];
        pid_t pid = userns_fork(CLONE_NEWUSER | CLONE_NEWNS);
        if (pid == 0)
                send_mount(theirs, path);
        close(take_fd(theirs));
        if (pid < 0)
                return -1;
        struct timeval most = {.tv_sec = MOUNT_SECONDS};
        ssize_t n = setsockopt(ours, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
        if (n == 0)
                n = fd_receive(ours, &byte, 1, &mount, &count, NULL, 0);
        child_kill(pid);
        return n == 1 && count == 1 ? mount : -1;
}

static int open_in_mount(struct cgroup *cgroup)
{
        struct cgroups *owner = cgroup->owner;

        if (!owner->mount_tried)
                owner->mount = make_mount(owner->items[0].path);
        owner->mount_tried = true;
        if (owner->mount < 0)
                return -EOPNOTSUPP;
        int fd = openat(owner->mount, cgroup->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

/* Gives both files that the kernel checks to these ids. */
static int give_both(struct cgroup *cgroup, uid_t uid, gid_t gid)
{
        struct cgroups *owner = cgroup->owner;

        if (!owner->is_lent || owner->lent_to != uid) {
                int r = give(owner->items[0].fd, uid, gid);
                if (r < 0)
                        return r;
                owner->is_lent = uid != geteuid();
                owner->lent_to = uid;
        }
        return give(cgroup->fds[0], uid, gid);
}

int cgroup_lend(struct cgroup *cgroup, uid_t uid, gid_t gid)
{
        if (!is_version_2(cgroup->owner))
                return -EOPNOTSUPP;
        _cleanup_close_ int fd = open_in_mount(cgroup);
        int r = fd < 0 ? fd : give_both(cgroup, uid, gid);
        return r < 0 ? r : take_fd(fd);
}

static void take_back(struct cgroup *cgroup)
{
        struct cgroups *owner = cgroup->owner;

        /* On failure the write that follows fails. */
        if (fchownat(owner->items[0].fd, members, geteuid(), getegid(), 0) == 0 &&
            fchownat(cgroup->fds[0], members, geteuid(), getegid(), 0) == 0)
                owner->is_lent = false;
}

int cgroup_add(struct cgroup *cgroup, pid_t pid, struct error *err)
{
        char text[16];

        if (cgroup->owner->is_lent)
                take_back(cgroup);
        snprintf(text, sizeof(text), "%d", pid);
        for (size_t i = 0; i < cgroup->owner->count; i++) {
                int r = cgroup_write(cgroup->fds[i], members, text);
                if (r < 0)
                        return error_errno(err, -r, "cgroup: move process %d into %s", pid,
                                           cgroup->owner->items[i].path);
        }
        return 0;
}

int cgroup_dir(const struct cgroup *cgroup)
{
        return is_version_2(cgroup->owner) ? cgroup->fds[0] : -1;
}

bool cgroup_holds(const struct cgroup *cgroup, pid_t pid)
{
        char text[256];

        /* A new session has at most two processes. A longer list counts as a failure. */
        if (!is_version_2(cgroup->owner) ||
            cgroup_read(cgroup->fds[0], members, text, sizeof(text)) <= 0)
                return false;
        char *rest = text;
        for (const char *line; (line = strsep(&rest, "\n")) && *line;) {
                if (atoi(line) == pid)
                        return true;
        }
        return false;
}

void cgroup_prefer(struct cgroup *cgroup)
{
        if (is_version_2(cgroup->owner))
                (void)cgroup_write(cgroup->fds[0], "cpu.weight", "1000");
}
