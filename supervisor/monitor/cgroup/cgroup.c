/*
 * Control groups, behind one interface.
 *
 * Theory of operation. In each hierarchy, below our own cgroup (version 2 as root: below the mount's
 * root where ours cannot have children), lies one parent directory, cloister-<pid>-<start time>, in
 * it "sandboxes", whose limits hold for all together, and in that one leaf for each sandbox. The parent is locked with flock() as long as the monitor lives,
 * so that the janitor of a monitor in another pid namespace, where the pid means nothing,
 * leaves it alone. Its mode lets other users pass but not open it: they could lock it first.
 *
 * On version 2, a leaf that was killed is never used again: the kernel would kill every process cloned into it. On version 1
 * the leaf of a session whose processes have ended waits for the next session (cgroup-spare.h). The directory of any other leaf
 * can be removed when its processes have ended, which mostly is the case at once. Otherwise a timer tries again, then
 * cgroups_free(), then the janitor.
 */
#include "supervisor/monitor/cgroup/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/mount.h"
#include "supervisor/monitor/cgroup/cgroup-files.h"
#include "supervisor/monitor/cgroup/cgroup-spare.h"
#include "supervisor/monitor/cgroup/cgroup-versions.h"
#include "supervisor/monitor/cgroup/janitor.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/process/child.h"

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
 * descriptors belong to a read-only, detached mount of "sandboxes": nothing is above it,
 * and cgroup.procs cannot be written through it, since for a clone the kernel checks the mode of
 * the file only. Making this mount needs privilege over a mount namespace, which a child has in its
 * own.
 *
 * Without CAP_DAC_OVERRIDE we cannot write a file that we gave away: we take ownership back first.
 */

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

static void send_mount(int socket, const char *parent)
{
        const uint64_t attributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                    MOUNT_ATTR_NOEXEC;
        struct error ignored = {};
        char path[PATH_MAX], byte = 0;

        snprintf(path, sizeof(path), "%s/sandboxes", parent);
        prctl(PR_SET_DUMPABLE, 0);
        int mount = mount_clone(AT_FDCWD, path, attributes, &ignored);
        _exit(mount < 0 || fd_send(socket, &byte, 1, &mount, 1, 0) < 0);
}

enum { MOUNT_SECONDS = 5 };

/* Returns the descriptor, or -1. */
static int make_mount(const char *parent)
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
                send_mount(theirs, parent);
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

static int give_parent(struct cgroups *owner, uid_t uid, gid_t gid)
{
        int r = give(owner->items[0].fd, uid, gid);

        if (r < 0)
                return r;
        owner->is_lent = uid != geteuid();
        owner->lent_to = uid;
        owner->lent_to_group = gid;
        return 0;
}

/* Gives both files that the kernel checks to these ids. */
static int give_both(struct cgroup *cgroup, uid_t uid, gid_t gid)
{
        struct cgroups *owner = cgroup->owner;
        int r = 0;

        if (!owner->is_lent || owner->lent_to != uid)
                r = give_parent(owner, uid, gid);
        if (r >= 0)
                r = give(cgroup->fds[0], uid, gid);
        cgroup->is_lent = r >= 0 && uid != geteuid();
        return r;
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
                owner->is_lent = cgroup->is_lent = false;
}

static int move(const struct cgroup *cgroup, pid_t pid, struct error *err)
{
        char text[16];

        snprintf(text, sizeof(text), "%d", pid);
        for (size_t i = 0; i < cgroup->owner->count; i++) {
                int r = cgroup_is_used_in(cgroup, i) ? cgroup_write(cgroup->fds[i], members, text)
                                                     : 0;
                if (r < 0)
                        return error_errno(err, -r, "cgroup: move process %d into %s", pid,
                                           cgroup->owner->items[i].path);
        }
        return 0;
}

int cgroup_add(struct cgroup *cgroup, pid_t pid, struct error *err)
{
        struct cgroups *owner = cgroup->owner;
        /* No template clones into the group of a server. */
        bool takes_back = (owner->is_lent || cgroup->is_lent) && cgroup->name[0] != '.';
        /* A template may be cloning into another leaf at this moment. If it is refused, its session is added to that one. */
        bool lends_again = owner->is_lent && takes_back && !cgroup->is_lent;

        if (takes_back)
                take_back(cgroup);
        int r = move(cgroup, pid, err);
        if (lends_again)
                (void)give_parent(owner, owner->lent_to, owner->lent_to_group);
        return r;
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

enum { PROCS_TEXT = 16 * 1024 };
enum { BATCH_PAGES = 64 }; /* MEMCG_CHARGE_BATCH */

enum { LIMIT_SLACK = 1 << 20 }; /* a large page that did not fit */

enum { RETRY_MIN_MS = 1, RETRY_MAX_MS = 512, LEFTOVERS_MAX = 1024 };

/* ---- the parent ---- */

/* Whether limits can be set is found out by making a leaf with them. */
static int try_leaf(struct cgroups *cgroups, struct error *err)
{
        struct limits limits;
        struct cgroup *trial;

        limits_default(&limits);
        int r = cgroup_new(cgroups, 0, &limits, &trial, err);
        if (r < 0)
                return r;
        const struct cgroup_operations *o = cgroups->operations;
        int fd = cgroup_leaf_fd(trial, o->cpu_limit_controller);
        struct stat st;
        cgroups->bounds_cpu = fd >= 0 && fstatat(fd, o->cpu_limit_file, &st, 0) == 0;
        cgroup_free(trial);
        return 0;
}

static int try_version(struct cgroups *cgroups, const struct cgroup_operations *operations,
                       int (*open_version)(struct cgroups *, const struct cgroup_places *,
                                           struct error *),
                       const struct cgroup_places *places, struct error *why)
{
        int r = open_version(cgroups, places, why);

        if (r >= 0) {
                cgroups->operations = operations;
                r = try_leaf(cgroups, why);
        }
        if (r < 0) {
                cgroups->operations = NULL;
                cgroups_forget_hierarchies(cgroups);
        }
        return r;
}

static void explain(int code, bool v2, struct error *why)
{
        if (code == -EOPNOTSUPP) {
                error_set(
                        why, EOPNOTSUPP,
                        "no cgroup hierarchy with the memory and pids controllers is mounted here (mount -t cgroup2 none /sys/fs/cgroup)");
                return;
        }
        if (code != -EACCES && code != -EPERM && code != -EROFS)
                return;
        size_t used = strlen(why->text);
        snprintf(why->text + used, sizeof(why->text) - used, "; %s",
                 !v2              ? "with cgroup v1 only root may make one"
                 : geteuid() == 0 ? "start it with `systemd-run --scope -p Delegate=yes`"
                                  : "start it with `systemd-run --user --scope -p Delegate=yes`");
}

int cgroups_candidates(char ***ret, struct error *err)
{
        _cleanup_free_ struct cgroup_places *places = NULL;
        char name[sizeof((struct cgroups){}.name)];
        size_t n = 0;

        int r = cgroup_places_read(&places, err);
        if (r >= 0)
                r = stale_group_name(name, sizeof(name), err);
        if (r < 0)
                return r;
        /* At most two for each hierarchy: below our own group and below the mount's root. */
        char **list = calloc(2 * places->count + 1, sizeof(char *));
        if (!list)
                return error_errno(err, ENOMEM, "cgroup");
        for (size_t i = 0; i < places->count && r >= 0; i++) {
                const char *bases[] = {places->items[i].own, places->items[i].mount};
                size_t most = strcmp(bases[0], bases[1]) == 0 ? 1 : 2;
                for (size_t k = 0; k < most && r >= 0; k++) {
                        if (access(bases[k], W_OK | X_OK) < 0)
                                continue;
                        r = asprintf(&list[n], "%s/%s", bases[k], name);
                        n += r >= 0;
                }
        }
        if (r < 0) {
                list[n] = NULL;
                cgroups_candidates_free(list);
                return error_errno(err, ENOMEM, "cgroup");
        }
        *ret = list;
        return 0;
}

void cgroups_candidates_free(char **list)
{
        for (size_t i = 0; list && list[i]; i++)
                free(list[i]);
        free(list);
}

int cgroups_open(bool is_ours, struct cgroups **ret, struct error *why, struct error *err)
{
        _cleanup_free_ struct cgroup_places *places = NULL;
        struct error local = {0};

        int r = cgroup_places_read(&places, err);
        if (r < 0)
                return r;
        struct cgroups *cgroups = calloc(1, sizeof(*cgroups));
        if (!cgroups)
                return error_errno(err, ENOMEM, "cgroup");
        cgroups->is_ours = is_ours;
        cgroups->mount = -1;
        r = stale_group_name(cgroups->name, sizeof(cgroups->name), err);
        if (r < 0) {
                free(cgroups);
                return r;
        }
        r = try_version(cgroups, &cgroup2_operations, cgroup2_open, places, &local);
        bool v2 = r != -EOPNOTSUPP;
        if (!v2)
                r = try_version(cgroups, &cgroup1_operations, cgroup1_open, places, &local);
        if (r < 0) {
                explain(r, v2, &local);
                cgroups->wants_delegation = v2;
                if (why)
                        *why = local;
        }
        *ret = cgroups;
        return 0;
}

struct cgroups *cgroups_free(struct cgroups *cgroups)
{
        if (!cgroups)
                return NULL;
        if (cgroups->retry)
                event_free(cgroups->retry);
        cleanup_close(&cgroups->mount);
        (void)cgroup_spares_drop(cgroups);
        cgroup_spares_done(cgroups);
        cgroups_forget_hierarchies(cgroups);
        for (size_t i = 0; i < cgroups->n_leftovers; i++)
                free(cgroups->leftovers[i]);
        free(cgroups->leftovers);
        free(cgroups);
        return NULL;
}

enum cgroup_version cgroups_version(const struct cgroups *cgroups)
{
        return cgroups->operations ? cgroups->operations->version : CGROUP_NONE;
}

bool cgroups_want_delegation(const struct cgroups *cgroups)
{
        return cgroups->wants_delegation;
}

bool cgroups_may_stay(const struct cgroups *cgroups)
{
        return cgroups->may_stay;
}

bool cgroups_hold_owner(const struct cgroups *cgroups)
{
        return cgroups->holds_owner;
}

bool cgroups_bounds_cpu(const struct cgroups *cgroups)
{
        return cgroups->bounds_cpu;
}

size_t cgroups_paths(const struct cgroups *cgroups, const char **paths, size_t most)
{
        size_t n = cgroups->count < most ? cgroups->count : most;

        for (size_t i = 0; i < n; i++)
                paths[i] = cgroups->items[i].path;
        return n;
}

/* ---- leaves ---- */

static bool try_remove(const struct cgroups *cgroups, const char *name)
{
        bool gone = true;

        for (size_t i = 0; i < cgroups->count; i++)
                gone &= cgroup_tree_remove(cgroups->items[i].fd, name, 0) == 0;
        return gone;
}

/* The interval doubles each time: a process in an uninterruptible sleep may never end. */
static void plan_retry(struct cgroups *cgroups)
{
        if (!cgroups->retry || cgroups->n_leftovers == 0)
                return;
        event_add(cgroups->retry, &(struct timeval){.tv_usec = cgroups->retry_ms * 1000});
        cgroups->retry_ms = cgroups->retry_ms < RETRY_MAX_MS ? cgroups->retry_ms * 2 : RETRY_MAX_MS;
}

static void retry_leftovers(struct cgroups *cgroups)
{
        size_t left = 0;

        for (size_t i = 0; i < cgroups->n_leftovers; i++) {
                char *name = cgroups->leftovers[i];
                if (try_remove(cgroups, name))
                        free(name);
                else
                        cgroups->leftovers[left++] = name;
        }
        cgroups->n_leftovers = left;
}

static void on_retry(evutil_socket_t fd, short what, void *data)
{
        retry_leftovers(data);
        plan_retry(data);
}

int cgroups_set_loop(struct cgroups *cgroups, struct event_base *base)
{
        cgroups->retry = evtimer_new(base, on_retry, cgroups);
        return cgroups->retry ? cgroup_spares_init(cgroups, base) : -ENOMEM;
}

static void add_leftover(struct cgroups *cgroups, const char *name)
{
        /* Any more are removed with their parent, in cgroups_free(). */
        if (cgroups->n_leftovers == LEFTOVERS_MAX)
                return;
        if (!cgroups->leftovers)
                cgroups->leftovers = calloc(LEFTOVERS_MAX, sizeof(char *));
        char *copy = cgroups->leftovers ? strdup(name) : NULL;
        if (!copy)
                return;
        cgroups->leftovers[cgroups->n_leftovers++] = copy;
        cgroups->retry_ms = RETRY_MIN_MS;
        plan_retry(cgroups);
}

static int make_leaf(struct cgroup *cgroup, struct error *err)
{
        const struct cgroups *owner = cgroup->owner;

        for (size_t i = 0; i < owner->count; i++) {
                const struct hierarchy *h = &owner->items[i];
                if (mkdirat(h->fd, cgroup->name, 0755) < 0)
                        return error_errno(err, errno, "cgroup: mkdir %s/%s", h->path,
                                           cgroup->name);
                cgroup->fds[i] = openat(h->fd, cgroup->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (cgroup->fds[i] < 0)
                        return error_errno(err, errno, "cgroup: open %s/%s", h->path, cgroup->name);
        }
        return 0;
}

int cgroup_new(struct cgroups *cgroups, uint32_t id, const struct limits *limits,
               struct cgroup **ret, struct error *err)
{
        return cgroup_new_of(cgroups, 0, id, limits, ret, err);
}

static int new_leaf(struct cgroups *cgroups, const char *name, const struct limits *limits,
                    struct cgroup **ret, struct error *err)
{
        if (!cgroups->operations)
                return error_set(err, EOPNOTSUPP, "cgroup: this machine gives none");
        retry_leftovers(cgroups);
        struct cgroup *cgroup = calloc(1, sizeof(*cgroup));
        if (!cgroup)
                return error_errno(err, ENOMEM, "cgroup");
        cgroup->owner = cgroups;
        for (size_t i = 0; i < CGROUP_PLACES_MAX; i++)
                cgroup->fds[i] = -1;
        snprintf(cgroup->name, sizeof(cgroup->name), "%s", name);
        int r = make_leaf(cgroup, err);
        if (r >= 0 && limits)
                r = cgroups->operations->set_limits(cgroup, limits, err);
        if (r < 0) {
                cgroup_free(cgroup);
                return r;
        }
        if (limits)
                cgroup->limits = *limits;
        *ret = cgroup;
        return 0;
}

/* The serial makes the name unique, also when the leaf of the same id has not been removed yet. */
int cgroup_new_of(struct cgroups *cgroups, uint32_t principal, uint32_t id,
                  const struct limits *limits, struct cgroup **ret, struct error *err)
{
        char name[sizeof((*ret)->name)];
        int n = principal == 0 ? 0 : snprintf(name, sizeof(name), "p-%" PRIu32 "/", principal);
        bool is_reusable = id > 0 && limits && cgroups_version(cgroups) == CGROUP_V1;

        if (is_reusable && (*ret = cgroup_spare_take(cgroups, principal, limits)))
                return 0;
        snprintf(name + n, sizeof(name) - (size_t)n, "%c-%" PRIu32 "-%" PRIu32, id > 0 ? 's' : 't',
                 id, cgroups->serial++);
        int r = new_leaf(cgroups, name, limits, ret, err);
        if (r >= 0) {
                (*ret)->is_reusable = is_reusable;
                (*ret)->principal = principal;
        }
        return r;
}

int cgroup_new_server(struct cgroups *cgroups, struct cgroup **ret, struct error *err)
{
        char name[sizeof((*ret)->name)];

        snprintf(name, sizeof(name), "../servers/u-%" PRIu32, cgroups->serial++);
        return new_leaf(cgroups, name, NULL, ret, err);
}

static bool become_spare(struct cgroup *cgroup)
{
        if (!cgroup->is_reusable || (cgroup->rests && cgroup_rest(cgroup, false) < 0))
                return false;
        return cgroup_spare_keep(cgroup);
}

struct cgroup *cgroup_free(struct cgroup *cgroup)
{
        if (!cgroup || become_spare(cgroup))
                return NULL;
        /* The version 2 leaf first: it kills all processes at once, and the other hierarchies
         * hold the same ones. */
        (void)cgroup_kill(cgroup);
        for (size_t i = 0; i < CGROUP_PLACES_MAX; i++)
                cleanup_close(&cgroup->fds[i]);
        if (!try_remove(cgroup->owner, cgroup->name))
                add_leftover(cgroup->owner, cgroup->name);
        free(cgroup);
        return NULL;
}

int cgroup_set_memory(struct cgroup *cgroup, uint64_t bytes, struct error *err)
{
        int r = cgroup->owner->operations->set_memory(cgroup, bytes, err);

        cgroup->limits.memory = r < 0 ? 0 : bytes;
        return r;
}

int cgroup_kill(struct cgroup *cgroup)
{
        int fd = cgroup_leaf_fd(cgroup, CGROUP_UNIFIED);
        int r = fd < 0 ? -EOPNOTSUPP : cgroup_write(fd, "cgroup.kill", "1");

        /* Kernels before 5.14 have no such file. */
        return r == -ENOENT ? -EOPNOTSUPP : r;
}

int cgroup_freeze(struct cgroup *cgroup, bool frozen)
{
        int fd = cgroup_leaf_fd(cgroup, CGROUP_UNIFIED);
        int r = fd < 0 ? -EOPNOTSUPP : cgroup_write(fd, "cgroup.freeze", frozen ? "1" : "0");

        cgroup->is_frozen = frozen || (cgroup->is_frozen && r < 0);
        /* Kernels before 5.2 have no such file. */
        return r == -ENOENT ? -EOPNOTSUPP : r;
}

bool cgroup_is_frozen(const struct cgroup *cgroup)
{
        int fd = cgroup_leaf_fd(cgroup, CGROUP_UNIFIED);

        return fd >= 0 && cgroup_read_key(fd, "cgroup.events", "frozen") == 1;
}

bool cgroup_has_share(const struct cgroup *cgroup)
{
        return cgroup_leaf_fd(cgroup, cgroup->owner->operations->cpu_limit_controller) >= 0;
}

/* The kernel schedules an idle group behind all others. Before 5.15 it has only weights: the lowest one. */
int cgroup_rest(struct cgroup *cgroup, bool rests)
{
        const struct cgroup_operations *o = cgroup->owner->operations;
        int fd = cgroup_leaf_fd(cgroup, o->cpu_limit_controller);
        int r = fd < 0 ? -EOPNOTSUPP : cgroup_write(fd, "cpu.idle", rests ? "1" : "0");

        if (r == -ENOENT)
                r = o->version == CGROUP_V2 ? cgroup_write(fd, "cpu.weight", rests ? "1" : "100")
                                            : cgroup_write(fd, "cpu.shares", rests ? "2" : "1024");
        cgroup->rests = rests || (cgroup->rests && r < 0);
        return r;
}

int cgroup_be_busy(struct cgroup *cgroup, bool is_busy)
{
        const struct cgroup_operations *o = cgroup->owner->operations;
        int fd = cgroup_leaf_fd(cgroup, o->cpu_limit_controller);

        if (fd < 0)
                return -EOPNOTSUPP;
        return o->version == CGROUP_V2 ? cgroup_write(fd, "cpu.weight", is_busy ? "10" : "100")
                                       : cgroup_write(fd, "cpu.shares", is_busy ? "102" : "1024");
}

size_t cgroup_count(const struct cgroup *cgroup)
{
        char text[PROCS_TEXT] _uninitialized_;
        int fd = cgroup_leaf_fd(cgroup, CGROUP_UNIFIED);
        size_t n = 0;

        if (fd < 0 || cgroup_read(fd, members, text, sizeof(text)) < 0)
                return 0;
        for (const char *at = text; (at = strchr(at, '\n')); at++)
                n++;
        return n;
}

/* ---- usage ---- */

static int open_usage_file(struct cgroup *cgroup, int dir, const char *file, int *ret,
                           struct error *err)
{
        *ret = openat(dir, file, O_RDONLY | O_CLOEXEC);
        return *ret < 0 ? error_errno(err, errno, "cgroup: open %s", file) : 0;
}

int cgroup_open_usage(struct cgroup *cgroup, int fds[SESSION_FDS], struct error *err)
{
        const struct cgroup_operations *o = cgroup->owner->operations;
        int memory = cgroup_leaf_fd(cgroup, o->memory_controller);

        int r = open_usage_file(cgroup, cgroup_leaf_fd(cgroup, o->cpu_controller), o->cpu_file,
                                &fds[SESSION_CPU], err);
        if (r >= 0)
                r = open_usage_file(cgroup, memory, o->memory_now_file, &fds[SESSION_MEMORY], err);
        if (r < 0)
                return r;
        /* Writing resets the peak, and nothing else. Version 2 can do that from Linux 6.12 on. */
        fds[SESSION_MEMORY_PEAK] = openat(memory, o->memory_file, O_RDWR | O_CLOEXEC);
        if (fds[SESSION_MEMORY_PEAK] >= 0)
                return 0;
        r = open_usage_file(cgroup, memory, o->memory_file, &fds[SESSION_MEMORY_PEAK], err);
        /* memory.peak came with Linux 5.19; without it we read the present use. */
        if (r == -ENOENT)
                r = open_usage_file(cgroup, memory, o->memory_now_file, &fds[SESSION_MEMORY_PEAK],
                                    err);
        return r;
}

uint64_t cgroup_cpu_usec(struct cgroup *cgroup)
{
        const struct cgroup_operations *o = cgroup->owner->operations;
        int fd = cgroup_leaf_fd(cgroup, o->cpu_controller);

        return o->cpu_key ? cgroup_read_key(fd, o->cpu_file, o->cpu_key)
                          : cgroup_read_number(fd, o->cpu_file) / 1000;
}

uint64_t cgroup_memory_now(const struct cgroup *cgroup)
{
        const struct cgroup_operations *o = cgroup->owner->operations;

        return cgroup_read_number(cgroup_leaf_fd(cgroup, o->memory_controller), o->memory_now_file);
}

uint64_t cgroup_memory_peak(struct cgroup *cgroup)
{
        const struct cgroup_operations *o = cgroup->owner->operations;

        return cgroup_read_number(cgroup_leaf_fd(cgroup, o->memory_controller), o->memory_file);
}

/* Each processor may have 64 pages (MEMCG_CHARGE_BATCH) that its own counter has not passed on, and a reader
 * sums up only when 64 for each processor have been passed on (memcg_rstat_updated() and
 * memcg_vmstats_needs_flush() in mm/memcontrol.c). */
static uint64_t late_bytes(void)
{
        return 2 * BATCH_PAGES * (uint64_t)sysconf(_SC_PAGESIZE) *
               (uint64_t)sysconf(_SC_NPROCESSORS_CONF);
}

uint64_t cgroup_anonymous(struct cgroup *cgroup)
{
        const struct cgroup_operations *o = cgroup->owner->operations;
        uint64_t bytes = cgroup_read_key(cgroup_leaf_fd(cgroup, o->memory_controller),
                                         "memory.stat", o->anonymous_key);

        return bytes == 0 ? UINT64_MAX : bytes + late_bytes();
}

uint32_t cgroup_oom_kills(struct cgroup *cgroup)
{
        const struct cgroup_operations *o = cgroup->owner->operations;

        return (uint32_t)cgroup_read_key(cgroup_leaf_fd(cgroup, o->memory_controller), o->oom_file,
                                         "oom_kill");
}

bool cgroup_has_reached_limit(const struct cgroup *cgroup, uint64_t *seen)
{
        const struct cgroup_operations *o = cgroup->owner->operations;
        int fd = cgroup_leaf_fd(cgroup, o->memory_controller);

        /* memory.failcnt is always 0 in some kernels. */
        if (!o->hits_file)
                return cgroup_read_number(fd, o->memory_file) + LIMIT_SLACK >=
                       cgroup_read_number(fd, o->limit_file);
        uint64_t hits = cgroup_read_key(fd, o->hits_file, "oom"), before = *seen;
        *seen = hits;
        return hits > before;
}

static int pids_fd(const struct cgroup *cgroup)
{
        bool is_v2 = cgroup->owner->operations->version == CGROUP_V2;

        return cgroup_leaf_fd(cgroup, is_v2 ? CGROUP_UNIFIED : CGROUP_PIDS);
}

uint64_t cgroup_pids_refused(struct cgroup *cgroup)
{
        return cgroup_read_key(pids_fd(cgroup), "pids.events", "max");
}

void cgroup_set_pids(struct cgroup *cgroup, uint32_t pids)
{
        if (cgroup->limits.pids != pids)
                cgroup->limits.pids = cgroup_write_number(pids_fd(cgroup), "pids.max", pids) < 0
                                              ? 0
                                              : pids;
}
