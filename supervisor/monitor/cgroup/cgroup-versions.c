/*
 * The two versions of control groups.
 *
 * Version 2 is one tree. A group that has processes cannot give controllers to its children (cgroups(7), "no internal
 * processes"), and a group that systemd manages must not be changed unless it was delegated. So we
 * use our own group where it was delegated and contains only our processes, which move into a leaf
 * "janitor". Otherwise, root without systemd uses the root of the mount, and with systemd a scope
 * is requested (cgroup-scope.h).
 */
#include "supervisor/monitor/cgroup/cgroup-versions.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "supervisor/monitor/cgroup/cgroup-files.h"

enum { MOVE_ROUNDS_MAX = 10, GENERATIONS_MAX = 4, PROCS_SIZE = 64 * 1024 };

static int set_cpu(const struct cgroup *cgroup, uint32_t milli, uint32_t period_us,
                   struct error *err)
{
        char text[48];

        if (milli == 0)
                snprintf(text, sizeof(text), "max");
        else
                snprintf(text, sizeof(text), "%llu %u",
                         (unsigned long long)milli * period_us / 1000, period_us);
        int r = cgroup_write(cgroup_leaf_fd(cgroup, CGROUP_UNIFIED), "cpu.max", text);
        /* A user manager delegates memory and pids, but cpu not always. */
        return r < 0 && r != -ENOENT ? error_errno(err, -r, "cgroup: write cpu.max") : 0;
}

static int set_memory(const struct cgroup *cgroup, uint64_t bytes, struct error *err)
{
        return cgroup_set_number(cgroup, CGROUP_UNIFIED, "memory.max", bytes, err);
}

static int set_limits(const struct cgroup *cgroup, const struct limits *limits, struct error *err)
{
        int fd = cgroup_leaf_fd(cgroup, CGROUP_UNIFIED);
        int r = set_memory(cgroup, limits->memory, err);

        if (r >= 0)
                r = cgroup_set_number(cgroup, CGROUP_UNIFIED, "pids.max", limits->pids, err);
        if (r >= 0 && limits->cpu_milli > 0)
                r = set_cpu(cgroup, limits->cpu_milli, CGROUP_PERIOD_US, err);
        if (r < 0)
                return r;
        /* Absent where the kernel does not count swap. */
        r = cgroup_write(fd, "memory.swap.max", "0");
        if (r < 0 && r != -ENOENT)
                return error_errno(err, -r, "cgroup: write memory.swap.max");
        /* Nothing of ours makes groups in it. Code with our own id could, as many and as deep as it likes;
         * with nsdelegate it cannot raise this. */
        (void)cgroup_write(fd, "cgroup.max.descendants", "0");
        /* The OOM killer kills one process, not the group, so that init can report how the
         * worker ended. */
        (void)cgroup_write(fd, "memory.oom.group", "0");
        return 0;
}

const struct cgroup_operations cgroup2_operations = {
        .version = CGROUP_V2,
        .set_limits = set_limits,
        .set_memory = set_memory,
        .set_cpu = set_cpu,
        .cpu_limit_file = "cpu.max",
        .cpu_limit_controller = CGROUP_UNIFIED,
        .cpu_file = "cpu.stat",
        .cpu_controller = CGROUP_UNIFIED,
        .memory_file = "memory.peak",
        .memory_now_file = "memory.current",
        .anonymous_key = "anon",
        .cache_keys = {"active_file", "inactive_file"},
        .limit_file = "memory.max",
        .hits_file = "memory.events.local",
        .memory_controller = CGROUP_UNIFIED,
        .cpu_key = "usage_usec",
        .oom_file = "memory.events",
};

/* ---- where our parent goes ---- */

static bool has_word(const char *text, const char *word)
{
        size_t n = strlen(word);

        for (const char *at = text; (at = strstr(at, word)); at += n) {
                if ((at == text || at[-1] == ' ') && strchr(" \n", at[n]))
                        return true;
        }
        return false;
}

static bool controls(int dir_fd, const char *file)
{
        char text[512];

        return cgroup_read(dir_fd, file, text, sizeof(text)) >= 0 && has_word(text, "memory") &&
               has_word(text, "pids");
}

/* Only the root of the hierarchy may have both processes and controllers for its children. */
static bool is_true_root(int dir_fd)
{
        struct stat st;

        return fstatat(dir_fd, "cgroup.events", &st, 0) < 0;
}

static pid_t parent_of(pid_t pid)
{
        char path[32], text[1024];
        int parent = 0;

        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        const char *rest = cgroup_read(AT_FDCWD, path, text, sizeof(text)) < 0 ? NULL
                                                                               : strrchr(text, ')');
        return rest && sscanf(rest, ") %*c %d", &parent) == 1 ? (pid_t)parent : 0;
}

/* The monitor or a child of it: its janitor, and the process that asks for a scope. */
static bool is_one_of_us(pid_t pid)
{
        for (int i = 0; i < GENERATIONS_MAX && pid > 1; i++) {
                if (pid == getpid())
                        return true;
                pid = parent_of(pid);
        }
        return false;
}

static bool are_alone(int dir_fd)
{
        char text[PROCS_SIZE];

        if (cgroup_read(dir_fd, "cgroup.procs", text, sizeof(text)) <= 0)
                return false;
        char *rest = text;
        for (const char *line; (line = strsep(&rest, "\n")) && *line;) {
                if (!is_one_of_us((pid_t)atoi(line)))
                        return false;
        }
        return true;
}

static bool is_under_systemd(void)
{
        return access("/run/systemd/system", F_OK) == 0;
}

/* systemd marks groups that it delegated. Without systemd no other program manages the tree. */
static bool is_delegated(const char *path)
{
        char above[PATH_MAX], value[4];
        struct stat st;

        if (geteuid() != 0 || !is_under_systemd())
                return true;
        /* A group that was delegated to a user manager belongs to that user. */
        if (stat(path, &st) < 0 || st.st_uid != geteuid())
                return false;
        snprintf(above, sizeof(above), "%s", path);
        /* A group below a delegated one is delegated as well. */
        for (char *slash; (slash = strrchr(above, '/')); *slash = '\0') {
                if (getxattr(above, "trusted.delegate", value, sizeof(value)) > 0 ||
                    getxattr(above, "user.delegate", value, sizeof(value)) > 0)
                        return true;
        }
        return false;
}

int cgroup2_enable(int dir_fd, const char *path, struct error *why)
{
        const char file[] = "cgroup.subtree_control";
        int r = controls(dir_fd, file) ? 0 : cgroup_write(dir_fd, file, "+memory +pids");

        if (r == -EBUSY)
                return error_set(
                        why, EBUSY,
                        "cgroup %s holds processes and so cannot limit a part of them; start Cloister in its own cgroup (systemd: Delegate=yes)",
                        path);
        if (r < 0)
                return error_errno(why, -r, "cgroup: enable memory and pids in %s", path);
        (void)cgroup_write(dir_fd, file, "+cpu");
        return 0;
}

static int move_aside(int dir_fd, const char *path, struct error *why)
{
        char pids[PROCS_SIZE];
        int r = 1;

        if (mkdirat(dir_fd, "janitor", 0755) < 0 && errno != EEXIST)
                return error_errno(why, errno, "cgroup: mkdir %s/janitor", path);
        /* Processes forked meanwhile are moved in the next round. One that has ended is no
         * error. */
        for (int round = 0; r > 0 && round < MOVE_ROUNDS_MAX; round++) {
                r = cgroup_read(dir_fd, "cgroup.procs", pids, sizeof(pids));
                char *rest = pids;
                for (const char *pid; r > 0 && (pid = strsep(&rest, "\n")) && *pid;) {
                        int moved = cgroup_write(dir_fd, "janitor/cgroup.procs", pid);
                        r = moved < 0 && moved != -ESRCH ? moved : r;
                }
        }
        return r < 0 ? error_errno(why, -r, "cgroup: move to %s/janitor", path) : 0;
}

static int host_in(struct cgroups *cgroups, int dir_fd, const char *path, struct error *why)
{
        int r = cgroup2_enable(dir_fd, path, why);

        if (r >= 0)
                r = cgroup_add_hierarchy(cgroups, CGROUP_UNIFIED, path, why);
        if (r < 0)
                return r;
        const struct hierarchy *h = &cgroups->items[cgroups->count - 1];
        r = cgroup2_enable(h->parent_fd, h->path, why);
        return r < 0 ? r : cgroup2_enable(h->fd, h->path, why);
}

static int host_in_own(struct cgroups *cgroups, const char *path, struct error *why)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return error_errno(why, errno, "cgroup: open %s", path);
        int r = is_true_root(fd) ? 0 : move_aside(fd, path, why);
        return r < 0 ? r : host_in(cgroups, fd, path, why);
}

static int host_in_root(struct cgroups *cgroups, const char *path, struct error *why)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return error_errno(why, errno, "cgroup: open %s", path);
        return host_in(cgroups, fd, path, why);
}

/* A user manager does not mark the groups that it delegates. */
static bool is_of_user_manager(const char *path)
{
        char unit[32];

        snprintf(unit, sizeof(unit), "/user@%u.service/", geteuid());
        return is_under_systemd() && strstr(path, unit);
}

static bool own_can_host(const char *path, bool is_ours)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return fd >= 0 && controls(fd, "cgroup.controllers") &&
               (is_ours || is_true_root(fd) || (are_alone(fd) && is_delegated(path)));
}

int cgroup2_open(struct cgroups *cgroups, const struct cgroup_places *places, struct error *why)
{
        const struct cgroup_place *place = cgroup_place_of(places, CGROUP_UNIFIED);
        _cleanup_close_ int root = place ? open(place->mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                         : -1;

        if (root < 0 || !controls(root, "cgroup.controllers"))
                return -EOPNOTSUPP;
        cgroups->holds_owner = place->nsdelegate;
        if (own_can_host(place->own, cgroups->is_ours)) {
                cgroups->may_stay = !cgroups->is_ours && is_of_user_manager(place->own);
                if (!cgroups->may_stay)
                        return host_in_own(cgroups, place->own, why);
        }
        if (geteuid() == 0 && !is_under_systemd())
                return host_in_root(cgroups, place->mount, why);
        return error_set(why, EACCES,
                         "cgroup %s was not delegated to uid %u, or holds other processes",
                         place->own, geteuid());
}

/* ---- version 1: one hierarchy for each controller, and a version 2 leaf, which can kill ---- */

/* A limit for memory and swap together that equals the one for memory: no swap. Absent where the
 * kernel does not count swap. */
static int set_swap(const struct cgroup *cgroup, uint64_t bytes, struct error *err)
{
        int fd = cgroup_leaf_fd(cgroup, CGROUP_MEMORY);
        int r = cgroup_write_number(fd, "memory.memsw.limit_in_bytes", bytes);

        if (r < 0 && r != -ENOENT && r != -EOPNOTSUPP)
                return error_errno(err, -r, "cgroup: write memory.memsw.limit_in_bytes");
        (void)cgroup_write(fd, "memory.swappiness", "0");
        return 0;
}

/* The kernel refuses a limit of both that is below the one of memory: the higher one is changed first. */
static int set_memory_v1(const struct cgroup *cgroup, uint64_t bytes, struct error *err)
{
        int fd = cgroup_leaf_fd(cgroup, CGROUP_MEMORY);

        (void)cgroup_write_number(fd, "memory.memsw.limit_in_bytes", bytes);
        int r = cgroup_set_number(cgroup, CGROUP_MEMORY, "memory.limit_in_bytes", bytes, err);
        return r < 0 ? r : set_swap(cgroup, bytes, err);
}

static int set_cpu_v1(const struct cgroup *cgroup, uint32_t milli, uint32_t period_us,
                      struct error *err)
{
        if (cgroup_leaf_fd(cgroup, CGROUP_CPU) < 0)
                return 0;
        int r = milli == 0
                        ? cgroup_write(cgroup_leaf_fd(cgroup, CGROUP_CPU), "cpu.cfs_quota_us", "-1")
                        : cgroup_set_number(cgroup, CGROUP_CPU, "cpu.cfs_period_us", period_us,
                                            err);
        if (r >= 0 && milli > 0)
                r = cgroup_set_number(cgroup, CGROUP_CPU, "cpu.cfs_quota_us",
                                      (uint64_t)milli * period_us / 1000, err);
        return r;
}

/* TCP's and UDP's, which version 1 counts only where it has a limit for them, and not as memory. Absent where the kernel was
 * started with cgroup.memory=nosocket. */
static int set_sockets(const struct cgroup *cgroup, uint64_t bytes, struct error *err)
{
        static const char file[] = "memory.kmem.tcp.limit_in_bytes";
        int r = cgroup_write_number(cgroup_leaf_fd(cgroup, CGROUP_MEMORY), file, bytes);

        return r < 0 && r != -ENOENT ? error_errno(err, -r, "cgroup: write %s", file) : 0;
}

static int set_limits_v1(const struct cgroup *cgroup, const struct limits *limits,
                         struct error *err)
{
        int r = cgroup_set_number(cgroup, CGROUP_MEMORY, "memory.limit_in_bytes", limits->memory,
                                  err);
        if (r >= 0)
                r = set_swap(cgroup, limits->memory, err);
        if (r >= 0 && limits->socket_buffers > 0)
                r = set_sockets(cgroup, limits->socket_buffers, err);
        if (r >= 0)
                r = cgroup_set_number(cgroup, CGROUP_PIDS, "pids.max", limits->pids, err);
        if (r >= 0 && limits->cpu_milli > 0)
                r = set_cpu_v1(cgroup, limits->cpu_milli, CGROUP_PERIOD_US, err);
        /* More than a group above it has: that one's limit holds. */
        return r == -EINVAL ? 0 : r;
}

const struct cgroup_operations cgroup1_operations = {
        .version = CGROUP_V1,
        .set_limits = set_limits_v1,
        .set_memory = set_memory_v1,
        .set_cpu = set_cpu_v1,
        .cpu_limit_file = "cpu.cfs_quota_us",
        .cpu_limit_controller = CGROUP_CPU,
        .cpu_file = "cpuacct.usage",
        .cpu_controller = CGROUP_CPUACCT,
        .memory_file = "memory.max_usage_in_bytes",
        .memory_now_file = "memory.usage_in_bytes",
        .anonymous_key = "total_rss",
        .cache_keys = {"total_active_file", "total_inactive_file"},
        .limit_file = "memory.limit_in_bytes",
        .memory_controller = CGROUP_MEMORY,
        .oom_file = "memory.oom_control",
};

int cgroup1_open(struct cgroups *cgroups, const struct cgroup_places *places, struct error *why)
{
        const unsigned required[] = {CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPUACCT};

        for (size_t i = 0; i < ARRAY_SIZE(required); i++) {
                if (!cgroup_place_of(places, required[i]))
                        return -EOPNOTSUPP;
        }
        for (size_t i = 0; i < places->count; i++) {
                const struct cgroup_place *place = &places->items[i];
                int r = cgroup_add_hierarchy(cgroups, place->controllers, place->own, why);
                /* Without the version 2 leaf only PID 1 of a sandbox is killed, which ends the
                 * others. */
                if (r < 0 && place->controllers != CGROUP_UNIFIED)
                        return r;
        }
        return 0;
}
