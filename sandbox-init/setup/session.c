/*
 * A session between clone and exec.
 *
 * Theory of operation. The template sleeps in clone3 (CLONE_VFORK) and shares its memory with the
 * new PID 1 (CLONE_VM), so that no page tables are copied for a process that only builds a mount
 * tree and execs. PID 1 runs on the template's own stack, below the part in use: interpreters use
 * the bounds of the stack to limit recursion. CLONE_PARENT makes the monitor the parent of PID 1,
 * so that only the monitor gets its exit status. Where the kernel and the owner of the cgroup allow
 * it, PID 1 is cloned into its cgroup (CLONE_INTO_CGROUP). It then does the following, in this order:
 *
 *   1. Leaves the process group of the monitor, and writes its own single-id map. The template lent
 *      it the id as its effective uid. It MUST be dumpable here.
 *   2. Sends SESSION_HERE to the monitor; the kernel adds its pid. The monitor checks that this is
 *      the process that it asked for, moves it into its cgroup unless it was cloned into it, and answers with
 *      SESSION_GO. From here on all that PID 1 allocates is charged to that cgroup.
 *   3. Unshares its cgroup namespace, whose root is the cgroup that it is in at that moment. Sets
 *      resource limits, and drops the capability bounding set.
 *   4. Makes mounts private. Mounts its own full proc without attaching it, for which the template's
 *      MUST still be visible. By it, sets the namespace limits to 0, and those of its network. Then covers the
 *      template's with a restricted one.
 *   5. Mounts /tmp, /workspace and /dev/shm, and on these the host directories that belong there:
 *      in the template, they are at the places about to be covered. Brings lo up if the profile allows loopback.
 *   6. Becomes uid 1000 without capabilities, irrevocably. Then sets PDEATHSIG, which a change of ids
 *      clears, and makes /workspace/out.
 *   7. Forks the worker with libc's fork(), which registers rseq again (CLONE_VM dropped it).
 *   8. Execs init, which makes itself non-dumpable and loads its filter before it releases the worker.
 *
 * The worker loses the template's descriptors, confines itself with Landlock and loads its filter.
 * The interpreter's hooks and Cloister's own Python then run while init starts. The worker reads
 * nothing from its channel before init has released it (sandbox-init/worker/channel.h), so that no
 * code of the guest runs while PID 1 could still be inspected. PID 1 shares the template's memory
 * until it execs; the worker has a copy.
 */
#include "sandbox-init/setup/session.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/filter-load.h"
#include "base/landlock.h"
#include "base/mount.h"
#include "sandbox-init/raw.h"
#include "sandbox-init/setup/layout.h"

/* ---- resource limits, capabilities and ids ---- */

/* Never above the current hard limit: raising it needs CAP_SYS_RESOURCE on the host. */
static int set_limit(int resource, rlim_t most, struct error *err)
{
        struct rlimit now;

        if (getrlimit((__rlimit_resource_t)resource, &now) < 0)
                return error_errno(err, errno, "getrlimit %d", resource);
        if (most > now.rlim_max)
                most = now.rlim_max;
        struct rlimit want = {most, most};
        if (setrlimit((__rlimit_resource_t)resource, &want) < 0)
                return error_errno(err, errno, "setrlimit %d", resource);
        return 0;
}

/* For the process and its descendants. Hard limits are only lowered.
 *
 * RLIMIT_NPROC is set beside a control group too: the kernel compares it before it copies the memory of the process, and the limit of
 * the group only afterwards. Code that forks in a loop would otherwise copy and drop the memory each time, under locks that the pages of
 * all sessions of the template have in common. Before Linux 5.14 the kernel counts the processes of a host id, so that beside a group
 * there is no such limit where sessions have one in common. */
static int bounds_set_limits(const struct session_plan *plan, uint32_t language, struct error *err)
{
        const struct limits *l = &plan->limits;
        bool counts_own = plan->rlimits || plan->id > 0;
        struct {
                int resource;
                rlim_t most;
        } list[] = {
                {RLIMIT_NOFILE, l->open_files},
                {RLIMIT_MEMLOCK, 8UL * 1024 * 1024},
                {RLIMIT_MSGQUEUE, 0},
                {RLIMIT_SIGPENDING, 256},
                {RLIMIT_NICE, 0},
                {RLIMIT_RTPRIO, 0},
                {RLIMIT_NPROC, counts_own ? l->pids : RLIM_INFINITY},
                {RLIMIT_DATA,
                 plan->rlimits ? language_data_limit(language, l->memory) : RLIM_INFINITY},
        };
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(list); i++)
                r = set_limit(list[i].resource, list[i].most, err);
        return r;
}

/* Set to 0: all of /proc/sys/user but max_mnt_namespaces; a test compares them with the kernel's. */
static const struct {
        const char *name;
        bool is_optional; /* kernels without inotify or fanotify have no such file */
} user_limits[] = {
        {"max_user_namespaces", false},   {"max_pid_namespaces", false},
        {"max_net_namespaces", false},    {"max_ipc_namespaces", false},
        {"max_uts_namespaces", false},    {"max_time_namespaces", false},
        {"max_cgroup_namespaces", false}, {"max_inotify_instances", true},
        {"max_inotify_watches", true},    {"max_fanotify_groups", true},
        {"max_fanotify_marks", true},
};

/* In the session's own user namespace: no further namespaces, and no objects of inotify and
 * fanotify: the kernel charges them to the host uid as well, and with them a session could observe what
 * others read of the image that they share. *mounts is the limit of mount namespaces, open
 * for writing, to be set to 0 after the last mount: a detached mount counts as one.
 * proc: the session's own. In one proc the files of all user namespaces have the same names, and each lookup would compare
 * those of all live sessions (proc_sys_compare() in the kernel). */
static int bounds_limit_user(int proc, int *mounts, struct error *err)
{
        _cleanup_close_ int user = openat(proc, "sys/user", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (user < 0)
                return error_errno(err, errno, "open /proc/sys/user");
        for (size_t i = 0; i < ARRAY_SIZE(user_limits); i++) {
                _cleanup_close_ int fd = openat(user, user_limits[i].name, O_WRONLY | O_CLOEXEC);
                if (fd < 0 && errno == ENOENT && user_limits[i].is_optional)
                        continue;
                if (fd < 0 || write(fd, "0", 1) != 1)
                        return error_errno(err, errno, "set %s", user_limits[i].name);
        }
        *mounts = openat(user, "max_mnt_namespaces", O_WRONLY | O_CLOEXEC);
        return *mounts < 0 ? error_errno(err, errno, "open max_mnt_namespaces") : 0;
}

/* In the session's own network namespace. The kernel's defaults are those of a server: megabytes for each socket, which no
 * control group counts before accept(), and memory for as many connections that have ended as the machine allows. Reno is in
 * every kernel and open to every namespace; the host's own choice may pace, which costs loopback a third. */
static int bounds_limit_network(int proc, struct error *err)
{
        static const char *const list[][2] = {
                {"tcp_rmem", "4096 16384 131072"},
                {"tcp_wmem", "4096 16384 262144"},
                {"tcp_congestion_control", "reno"},
                {"tcp_max_tw_buckets", "16384"},
        };

        _cleanup_close_ int ipv4 = openat(proc, "sys/net/ipv4", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (ipv4 < 0)
                return error_errno(err, errno, "open /proc/sys/net/ipv4");
        for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
                ssize_t n = (ssize_t)strlen(list[i][1]);
                _cleanup_close_ int fd = openat(ipv4, list[i][0], O_WRONLY | O_CLOEXEC);
                if (fd < 0 || write(fd, list[i][1], (size_t)n) != n)
                        return error_errno(err, errno, "set net.ipv4.%s", list[i][0]);
        }
        return 0;
}

/* Empties the capability bounding set and locks the securebits. */
static int bounds_drop_capabilities(struct error *err)
{
        const unsigned long locked = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                                     SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                                     SECBIT_NO_CAP_AMBIENT_RAISE |
                                     SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;

        if (prctl(PR_SET_SECUREBITS, locked) < 0)
                return error_errno(err, errno, "lock securebits");
        int capability = 0;
        while (prctl(PR_CAPBSET_DROP, capability) == 0)
                capability++;
        /* EINVAL: the kernel's last capability was dropped. */
        if (errno != EINVAL || capability == 0)
                return error_errno(err, errno, "drop capability %d", capability);
        return 0;
}

/* Irrevocably and without capabilities. Raw system calls: libc's functions would signal the other
 * threads, and there are none. */
static int bounds_become_user(struct error *err)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct none[2] = {};

        if (syscall(SYS_setresgid, SANDBOX_UID, SANDBOX_UID, SANDBOX_UID) < 0 ||
            syscall(SYS_setresuid, SANDBOX_UID, SANDBOX_UID, SANDBOX_UID) < 0)
                return error_errno(err, errno, "become uid %d", SANDBOX_UID);
        if (syscall(SYS_capset, &header, none) < 0)
                return error_errno(err, errno, "capset");
        /* The change of ids cleared it. A worker that is not dumpable cannot open /dev/stdout. */
        if (prctl(PR_SET_DUMPABLE, 1) < 0)
                return error_errno(err, errno, "stay dumpable");
        return 0;
}

/* ---- the session ---- */

/* Broker and monitor come first where workers share a cgroup with them. RLIMIT_NICE keeps it. */
enum { WORKER_NICE = 5 };

/* As the mounts allow, except /proc: with oom_score_adj and autogroup a worker would change its
 * OOM score and its share of the processor. */
static const struct landlock_rule landlock_rules[] = {
        {"/", LANDLOCK_EXECUTE | LANDLOCK_READ},
        {"/dev", LANDLOCK_READ | LANDLOCK_WRITE_FILE | LANDLOCK_TRUNCATE | LANDLOCK_DEVICE_IOCTL},
        {"/proc", LANDLOCK_READ},
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
        return r < 0 ? error_errno(err, -r, "send to the monitor") : 0;
}

static int await_go(struct error *err)
{
        struct template_message go;

        ssize_t n = fd_receive(TEMPLATE_CONTROL_FD, &go, sizeof(go), NULL, NULL, NULL, 0);
        if (n != sizeof(go) || go.kind != SESSION_GO)
                return error_set(err, ECANCELED, "the monitor gave the session up");
        return 0;
}

/* Only for init: the worker closes them. The sandbox's own /proc hides from init what is not dumpable, as a program is that
 * its owner may not read; init has to find those too. The last file is of the namespace of who reads it. */
static int open_for_init(struct session *s, int whole, struct error *err)
{
        _cleanup_close_ int all = mount_proc_new(MOUNT_PROC_PIDS, err);
        if (all < 0)
                return error_context(err, "proc");
        s->proc_fd = openat(all, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (s->proc_fd < 0)
                return error_errno(err, errno, "open its proc");
        s->locks_fd = openat(whole, "locks", O_RDONLY | O_CLOEXEC);
        if (s->locks_fd < 0)
                return error_errno(err, errno, "open its /proc/locks");
        s->last_pid_fd = open("/proc/sys/kernel/ns_last_pid", O_RDONLY | O_CLOEXEC);
        return 0;
}

/* Returns the limit of mount namespaces, to be written after the last mount: its proc ends here. */
static int cover_proc(struct session *s, int root, struct error *err)
{
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return error_errno(err, errno, "make mounts private");
        _cleanup_close_ int limit = -1, whole = mount_proc_new(MOUNT_PROC_WHOLE, err);
        if (whole < 0)
                return error_context(err, "proc");
        int r = bounds_limit_user(whole, &limit, err);
        if (r >= 0 && s->template->loopback)
                r = bounds_limit_network(whole, err);
        if (r >= 0)
                r = open_for_init(s, whole, err);
        if (r < 0)
                return r;

        _cleanup_close_ int proc = mount_proc_new(MOUNT_PROC_OWN, err);
        r = proc < 0 ? proc : mount_attach(proc, root, "proc", err);
        return r < 0 ? error_context(err, "proc") : take_fd(limit);
}

/* The device is read from the mount itself: what an image has at the path may be exchanged meanwhile. */
static int mount_own(const struct limits *l, int root, struct init_hello *ret, struct error *err)
{
        const struct {
                const char *path;
                uint64_t size;
                uint32_t inodes;
        } own[INIT_DEVICES] = {
                {"tmp", l->tmp, l->tmp_inodes},
                {"workspace", l->workspace, l->workspace_inodes},
                {"dev/shm", l->shm, l->shm_inodes},
        };
        const uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
        struct stat st;

        for (size_t i = 0; i < INIT_DEVICES; i++) {
                _cleanup_close_ int fd = mount_tmpfs_new(own[i].size, own[i].inodes, 01777,
                                                         attributes, err);
                int r = fd;
                if (fd >= 0 && syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) < 0)
                        r = error_errno(err, errno, "stat");
                if (r >= 0)
                        r = mount_attach(fd, root, own[i].path, err);
                if (r < 0)
                        return error_context(err, "tmpfs /%s", own[i].path);
                ret->devices[i] = st.st_dev;
        }
        return 0;
}

static int attach_late(int mount, int root, const char *path, struct error *err)
{
        int r = mount_point_make(root, path, err);
        return r < 0 ? r : mount_attach(mount, root, path, err);
}

/* Tells init in which mounts a lock of code is one of the host's file. Without STATX_MNT_ID (before Linux 5.8) there is none. */
static int note_lock_mounts(struct session *s, int root, struct error *err)
{
        const struct template_plan *plan = s->template;
        size_t n = 0;

        static_assert((int)INIT_MOUNTS >= (int)TEMPLATE_MOUNTS_MAX - 1, "packages have no locks");
        memset(s->hello.mounts, 0, sizeof(s->hello.mounts));
        for (uint32_t i = 0; i < plan->n_mounts; i++) {
                struct statx st = {};
                if (!plan->mounts[i].locks)
                        continue;
                _cleanup_close_ int fd = mount_point_open(root, plan->mounts[i].target + 1, err);
                if (fd < 0)
                        return fd;
                if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) < 0)
                        return error_errno(err, errno, "statx %s", plan->mounts[i].target);
                if ((st.stx_mask & STATX_MNT_ID) && (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) &&
                    n < INIT_MOUNTS)
                        s->hello.mounts[n++] = st.stx_mnt_id;
        }
        return 0;
}

static int mount_writable(struct session *s, int root, struct error *err)
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
                r = mount_own(&s->plan.limits, root, &s->hello, err);
        /* Only for init, as it is before anything is mounted in it; the worker closes it. */
        if (r >= 0)
                r = s->workspace_fd = mount_clone(root, "workspace", 0, err);
        for (uint32_t i = 0; i < plan->n_mounts && r >= 0; i++) {
                if (late[i] >= 0)
                        r = attach_late(late[i], root, plan->mounts[i].target + 1, err);
                if (r < 0)
                        error_context(err, "mount on %s", plan->mounts[i].target);
        }
        /* The descriptors stay open until PID 1 execs and the worker closes all except its own. */
        return r < 0 ? r : note_lock_mounts(s, root, err);
}

/* The kernel adds 127.0.0.1 and ::1 when lo comes up. */
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

/* In the worker: places its descriptors, closes the template's, and confines itself. It becomes the
 * first victim of the OOM killer; raising the score needs no privilege. */
static int enter_worker(struct session *s, int release, struct error *err)
{
        int r = write_file("/proc/self/oom_score_adj", OOM_SCORE_WORKER, err);
        if (r < 0)
                return r;
        /* Is denied where Cloister was started with a higher value, which then stays. */
        (void)setpriority(PRIO_PROCESS, 0, WORKER_NICE);
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
        if (filter < 0 || s->release_fd < 0 || fd_close_range(3, (unsigned int)s->rpc_fd - 1) < 0)
                return error_errno(err, errno, "close the template's descriptors");
        r = confine(s->template, err);
        if (r >= 0)
                r = filter_load_listening(filter, s->template->asks, &s->listener_fd, err);
        if (r < 0)
                return r;
        /* Its number is the lowest. init takes it by that: descriptors on their way are counted for the user, and another session may
         * have all that there can be. */
        if (s->listener_fd >= 0)
                s->hello.listener = (uint64_t)s->listener_fd;
        s->hello.memory = s->plan.limits.memory;
        s->hello.cpu_milli = s->plan.limits.cpu_milli;
        s->hello.shares = s->plan.shares;
        s->hello.asks = s->listener_fd >= 0 && s->template->asks;
        r = fd_write_all(s->release_fd, &s->hello, sizeof(s->hello));
        if (r < 0)
                return error_errno(err, -r, "tell init the filter's listener");
        return fd_close_range((unsigned int)s->release_fd + 1, ~0U);
}

static void complain_and_exit(const struct error *err)
{
        fd_write_all(STDERR_FILENO, err->text, strlen(err->text));
        fd_write_all(STDERR_FILENO, "\n", 1);
        _exit(SANDBOX_EXIT_SETUP);
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
                {s->fds[SESSION_FD_CHANGES], INIT_CHANGES_FD},
                {s->workspace_fd, INIT_WORKSPACE_FD},
                {s->proc_fd, INIT_PROC_FD},
                {s->locks_fd, INIT_LOCKS_FD},
                {LAYOUT_SYNCS_FD, INIT_SYNCS_FD},
                {s->last_pid_fd, INIT_LAST_PID_FD}, /* last, because it may be missing */
        };

        size_t n = s->last_pid_fd < 0 ? ARRAY_SIZE(list) - 1 : ARRAY_SIZE(list);
        *init = fcntl(LAYOUT_INIT_FD, F_DUPFD_CLOEXEC, 64);
        for (size_t i = 0; i < n; i++) {
                list[i].from = fcntl(list[i].from, F_DUPFD_CLOEXEC, 64);
                if (list[i].from < 0 || *init < 0)
                        return error_errno(err, errno, "move init's descriptors");
        }
        for (size_t i = 0; i < n; i++) {
                if (dup2(list[i].from, list[i].to) < 0)
                        return error_errno(err, errno, "place init's descriptors");
        }
        /* If init held the worker's descriptors too, the broker would not see their end of file. */
        fd_close_range(0, 2);
        fd_close_range((unsigned int)list[n - 1].to + 1, 63);
        return 0;
}

static int become_init(struct session *s, int release, struct error *err)
{
        const char *const arguments[] = {"init", NULL};
        char *const environment[] = {NULL};
        int init = -1;

        int r = place_init_descriptors(s, release, &init, err);
        if (r < 0)
                return r;
        execveat(init, "", (char *const *)arguments, environment, AT_EMPTY_PATH);
        return error_errno(err, errno, "exec cloister-init");
}

/* Steps 1 to 3. */
static int enter(struct session *s, struct error *err)
{
        /* Leaves the template's process group, which kill(0, …) would reach. Where no control group divides the processors the kernel
         * gives each session (setsid(2)) a share of them (sched(7)): so this one has as much as any other, whatever the number of
         * its processes. */
        if ((s->plan.shares ? setsid() : setpgid(0, 0)) < 0)
                return error_errno(err, errno, "leave the template's process group");
        int r = announce(s, err);
        if (r >= 0)
                r = await_go(err);
        if (r >= 0 && syscall(SYS_unshare, CLONE_NEWCGROUP) < 0)
                r = error_errno(err, errno, "unshare its cgroup namespace");
        if (r >= 0)
                r = bounds_set_limits(&s->plan, s->template->language, err);
        if (r >= 0)
                r = bounds_drop_capabilities(err);
        return r;
}

/* Steps 4 to 6. */
static int build(struct session *s, struct error *err)
{
        _cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root < 0)
                return error_errno(err, errno, "open /");
        _cleanup_close_ int limit = cover_proc(s, root, err);
        int r = limit < 0 ? limit : mount_writable(s, root, err);
        if (r >= 0 && s->template->loopback)
                r = bring_lo_up(err);
        if (r >= 0 && write(limit, "0", 1) != 1)
                r = error_errno(err, errno, "limit mount namespaces");
        if (r >= 0)
                r = bounds_become_user(err);
        if (r >= 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                r = error_errno(err, errno, "parent death signal");
        /* May fail: a host directory mounted there can have it already, or be read-only. */
        if (r >= 0)
                mkdirat(AT_FDCWD, LAYOUT_OUT, 0755);
        return r;
}

/* Returns in the worker only. */
static void first_process(void *data)
{
        struct session *s = data;
        int release[2];

        if (enter(s, &s->error) < 0 || build(s, &s->error) < 0)
                _exit(1);
        if (syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, release) < 0) {
                error_errno(&s->error, errno, "a pair of sockets");
                _exit(1);
        }
        /* The fork() of an interpreter with its own libc sets the errno of that libc: report the
         * most likely cause. */
        errno = EAGAIN;
        pid_t worker = fork();
        if (worker == 0) {
                struct error error = {};
                if (enter_worker(s, release[0], &error) < 0)
                        complain_and_exit(&error);
                return;
        }
        if (worker < 0)
                error_errno(&s->error, errno, "fork the worker");
        else
                become_init(s, release[1], &s->error);
        _exit(1);
}

static long clone3_call(const struct clone_args *args, struct session *s)
{
        return raw_clone_call(SYS_clone3, raw_pointer(args), sizeof(*args), first_process, s);
}

/* If CLONE_INTO_CGROUP is refused, the monitor finds PID 1 outside its cgroup and moves it. */
static long clone_first_process(const struct clone_args *args, struct session *s)
{
        if (s->plan.cgroup) {
                struct clone_args into = *args;
                into.flags |= CLONE_INTO_CGROUP;
                into.cgroup = (uint64_t)s->fds[SESSION_FD_CGROUP];
                long pid = clone3_call(&into, s);
                if (pid >= 0)
                        return pid;
        }
        return clone3_call(args, s);
}

int session_clone(struct session *s)
{
        struct clone_args args = {
                .flags = CLONE_VM | CLONE_VFORK | CLONE_PARENT | CLONE_NEWUSER | CLONE_NEWPID |
                         CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS |
                         (s->has_network ? 0 : CLONE_NEWNET),
                /* With CLONE_PARENT the child gets the exit signal of the caller, and clone3
                 * requires 0 here. */
                .exit_signal = 0,
        };

        s->error = (struct error){};
        long pid = clone_first_process(&args, s);
        if (pid == 0)
                return 1;
        if (pid < 0)
                return error_errno(&s->error, (int)-pid, "clone3");
        return error_is_set(&s->error) ? -s->error.code : 0;
}
