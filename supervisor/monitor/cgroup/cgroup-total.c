/* The limits of many sandboxes together. */
#include "supervisor/monitor/cgroup/cgroup-total.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "supervisor/monitor/cgroup/cgroup-spare.h"
#include "supervisor/monitor/cgroup/cgroup-versions.h"
#include "supervisor/monitor/cgroup/cgroup.h"

enum {
        WEIGHT_SUPERVISOR = 400,
        WEIGHT_SERVERS = 200,
        SUPERVISOR_MIN =
                64
                << 20, /* bytes that the kernel takes last, as far as the groups above have them */
        WEIGHT = 100,  /* of "sandboxes", and of every group that has no other */
        SERVERS_PIDS = 4096,    /* at most */
        SERVERS_PIDS_MIN = 256, /* a few servers with threads, also in a small container */
        PERIOD_US = 20000,
        PERIOD_LONG_US = 100000, /* the kernel needs a millisecond of processor time in each */
        CPU_SMALL = 100,
        ALL_CONTROLLERS = -1,
};

/* ---- the machine ---- */

static uint64_t lower(uint64_t a, uint64_t b)
{
        return b > 0 && b < a ? b : a;
}

/* Version 1 writes no limit as a number beyond any memory. "max" is read as 0. Above memory.high (a unit's MemoryHigh=) the kernel
 * stops every process of the group for up to two seconds at each allocation, also the monitor and the broker. */
uint64_t cgroup_memory_limit(int dir)
{
        static const char *const files[] = {"memory.limit_in_bytes", "memory.max", "memory.high"};
        uint64_t least = UINT64_MAX;

        for (size_t i = 0; i < ARRAY_SIZE(files); i++)
                least = lower(least, cgroup_read_number(dir, files[i]));
        return least;
}

/* 0: "max", or no such file. */
static uint64_t cpu_of(int dir)
{
        long long quota = 0, period = 0;
        char text[64];

        if (cgroup_read(dir, "cpu.max", text, sizeof(text)) < 0 ||
            sscanf(text, "%lld %lld", &quota, &period) != 2) {
                if (cgroup_read(dir, "cpu.cfs_quota_us", text, sizeof(text)) >= 0)
                        quota = atoll(text);
                period = (long long)cgroup_read_number(dir, "cpu.cfs_period_us");
        }
        return quota > 0 && period > 0 ? (uint64_t)quota * 1000 / (uint64_t)period : 0;
}

struct bounds {
        uint64_t memory, cpu, pids;
};

static uint64_t pids_of_machine(void)
{
        return lower(cgroup_read_number(AT_FDCWD, "/proc/sys/kernel/pid_max") ?: UINT32_MAX,
                     cgroup_read_number(AT_FDCWD, "/proc/sys/kernel/threads-max"));
}

static struct bounds bounds_here(void)
{
        struct bounds here = {
                .memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE),
                .cpu = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN) * 1000,
                .pids = pids_of_machine(),
        };
        _cleanup_free_ struct cgroup_places *places = NULL;
        struct error ignored = {};

        (void)cgroup_places_read(&places, &ignored);
        for (size_t i = 0; places && i < places->count; i++) {
                struct cgroup_place *place = &places->items[i];
                /* Each group from ours up to the mount. */
                for (size_t n = strlen(place->own); n >= strlen(place->mount);
                     n = (size_t)(strrchr(place->own, '/') - place->own)) {
                        place->own[n] = '\0';
                        _cleanup_close_ int dir = open(place->own,
                                                       O_PATH | O_DIRECTORY | O_CLOEXEC);
                        here.memory = lower(here.memory, cgroup_memory_limit(dir));
                        here.cpu = lower(here.cpu, cpu_of(dir));
                        here.pids = lower(here.pids, cgroup_read_number(dir, "pids.max"));
                        if (n == strlen(place->mount) || !strchr(place->own, '/'))
                                break;
                }
        }
        return here;
}

struct cgroup_total cgroup_total_here(void)
{
        struct bounds here = bounds_here();

        return (struct cgroup_total){here.memory, (uint32_t)here.cpu};
}

/* Processes and threads of all sandboxes: three quarters of what the machine, or a unit by TasksMax=, can have. */
static uint32_t pids_of_all(void)
{
        return (uint32_t)lower(bounds_here().pids / 4 * 3, UINT32_MAX);
}

/* Those of all servers: most of what sandboxes leave. The rest is for Cloister itself. */
static uint32_t pids_of_servers(void)
{
        uint64_t part = bounds_here().pids / 16 * 3;

        return (uint32_t)lower(SERVERS_PIDS, part > SERVERS_PIDS_MIN ? part : SERVERS_PIDS_MIN);
}

/* ---- the groups ---- */

static void close_group(struct cgroup *group)
{
        for (size_t i = 0; i < CGROUP_PLACES_MAX; i++)
                cleanup_close(&group->fds[i]);
}

#define _cleanup_group_ _cleanup_(close_group)

/* Opens a group by its path from "sandboxes", in the hierarchies of these controllers; makes: after making it, if it is not
 * there. */
static int open_path(struct cgroups *cgroups, const char *path, unsigned controllers, bool makes,
                     struct cgroup *ret)
{
        *ret = (struct cgroup){.owner = cgroups};
        snprintf(ret->name, sizeof(ret->name), "%s", path);
        for (size_t i = 0; i < CGROUP_PLACES_MAX; i++)
                ret->fds[i] = -1;
        for (size_t i = 0; i < cgroups->count; i++) {
                int at = cgroups->items[i].fd;
                if (!(cgroups->items[i].controllers & controllers))
                        continue;
                if (makes && mkdirat(at, path, 0711) < 0 && errno != EEXIST)
                        return -errno;
                ret->fds[i] = openat(at, ret->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (ret->fds[i] < 0)
                        return -errno;
        }
        return 0;
}

static void name_group(uint32_t principal, char ret[], size_t size)
{
        if (principal > 0)
                snprintf(ret, size, "p-%" PRIu32, principal);
        else
                snprintf(ret, size, ".");
}

/* Opens the group of a principal, or "sandboxes", in the hierarchy of a controller. */
static int open_group(struct cgroups *cgroups, uint32_t principal,
                      enum cgroup_controller controller, struct cgroup *ret)
{
        char name[sizeof(ret->name)];

        name_group(principal, name, sizeof(name));
        return open_path(cgroups, name, controller, false, ret);
}

/* Makes a group, if it is not there, and opens it. */
static int make_group(struct cgroups *cgroups, const char *name, struct cgroup *ret,
                      struct error *err)
{
        int r = open_path(cgroups, name, ALL_CONTROLLERS, true, ret);

        return r < 0 ? error_errno(err, -r, "cgroup: make %s in %s/sandboxes", name,
                                   cgroups->items[0].path)
                     : 0;
}

/* Best effort: the controller may not be there. On version 1 only sandboxes have a group of processor time. */
static void set_weight(const struct cgroup *group, uint64_t weight)
{
        if (group->owner->operations->version == CGROUP_V2)
                (void)cgroup_write_number(group->fds[0], "cpu.weight", weight);
}

static int set_total(struct cgroups *cgroups, uint32_t principal, const struct cgroup_total *total,
                     struct error *err)
{
        const struct cgroup_operations *o = cgroups->operations;
        char name[sizeof((struct cgroup){}.name)];
        _cleanup_group_ struct cgroup group;

        name_group(principal, name, sizeof(name));
        int r = make_group(cgroups, name, &group, err);
        if (r >= 0 && principal > 0 && o->version == CGROUP_V2)
                r = cgroup2_enable(group.fds[0], group.name, err);
        if (r >= 0)
                r = o->set_memory(&group, total->memory, err);
        if (r < 0)
                return r;
        cgroup_set_pids(&group, principal > 0 ? pids_of_all() / 2 : pids_of_all());
        /* All stop when the time of a period is used up. */
        return o->set_cpu(&group, total->cpu_milli,
                          total->cpu_milli < CPU_SMALL ? PERIOD_LONG_US : PERIOD_US, err);
}

/* Spare leaves have limits too, for which version 1 may refuse. */
int cgroups_set_total(struct cgroups *cgroups, uint32_t principal, const struct cgroup_total *total,
                      struct error *err)
{
        int r = set_total(cgroups, principal, total, err);

        if (r < 0 && cgroup_spares_drop(cgroups) > 0) {
                *err = (struct error){};
                r = set_total(cgroups, principal, total, err);
        }
        return r;
}

/* Best effort, as the weight. */
static void set_minimum(const struct cgroup *group)
{
        if (group->owner->operations->version == CGROUP_V2)
                (void)cgroup_write_number(group->fds[0], "memory.min", SUPERVISOR_MIN);
}

/* All groups together have the weight that they would have beside our own, and the minimum of one of them. */
static void set_parts_of_all(struct cgroups *cgroups)
{
        _cleanup_group_ struct cgroup group;

        if (open_path(cgroups, "..", ALL_CONTROLLERS, false, &group) < 0)
                return;
        set_weight(&group, WEIGHT_SUPERVISOR + WEIGHT_SERVERS + WEIGHT);
        set_minimum(&group);
}

int cgroups_set_servers(struct cgroups *cgroups, uint64_t memory, struct error *err)
{
        const struct cgroup_operations *o = cgroups->operations;
        _cleanup_group_ struct cgroup group;

        int r = make_group(cgroups, "../servers", &group, err);
        if (r >= 0 && o->version == CGROUP_V2)
                r = cgroup2_enable(group.fds[0], "servers", err);
        if (r < 0)
                return r;
        cgroup_set_pids(&group, pids_of_servers());
        set_weight(&group, WEIGHT_SERVERS);
        set_parts_of_all(cgroups);
        return o->set_memory(&group, memory, err);
}

/* ---- our own processes ---- */

static int move(const struct cgroup *group, pid_t pid, struct error *err)
{
        for (size_t i = 0; i < group->owner->count; i++) {
                if (!cgroup_is_used_in(group, i))
                        continue;
                int r = cgroup_write_number(group->fds[i], "cgroup.procs", (uint64_t)pid);
                if (r < 0 && r != -ESRCH)
                        return error_errno(err, -r, "cgroup: move process %d into %s/supervisor",
                                           pid, group->owner->items[i].path);
        }
        return 0;
}

static bool is_placed(const struct cgroups *cgroups, pid_t pid)
{
        char path[32], text[4096];

        snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
        return cgroup_read(AT_FDCWD, path, text, sizeof(text)) >= 0 &&
               strstr(text, cgroups->name) != NULL;
}

/* Opens the groups in which we are now. */
static int find_home(struct cgroups *cgroups, struct error *err)
{
        _cleanup_free_ struct cgroup_places *places = NULL;
        int r = cgroup_places_read(&places, err);

        for (size_t i = 0; i < cgroups->count && r >= 0; i++) {
                struct hierarchy *h = &cgroups->items[i];
                const struct cgroup_place *place = cgroup_place_of(places, h->controllers);
                h->home_fd = place ? open(place->own, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
                if (h->home_fd < 0)
                        r = error_errno(err, place ? errno : ENOENT, "cgroup: our own group");
        }
        return r;
}

int cgroups_enter(struct cgroups *cgroups, const pid_t *others, size_t n, struct error *err)
{
        _cleanup_group_ struct cgroup group;
        int r = make_group(cgroups, "../supervisor", &group, err);

        if (r >= 0)
                r = find_home(cgroups, err);
        if (r < 0)
                return r;
        set_weight(&group, WEIGHT_SUPERVISOR);
        set_minimum(&group);
        set_parts_of_all(cgroups);
        r = move(&group, getpid(), err);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                int moved = is_placed(cgroups, others[i]) ? 0 : move(&group, others[i], err);
                r = moved < 0 ? moved : r;
        }
        return r;
}

uint64_t cgroups_used(struct cgroups *cgroups, uint32_t principal, uint64_t most)
{
        const struct cgroup_operations *o = cgroups->operations;
        _cleanup_group_ struct cgroup group;

        if (open_group(cgroups, principal, o->memory_controller, &group) < 0)
                return 0;
        int fd = cgroup_leaf_fd(&group, o->memory_controller);
        uint64_t used = cgroup_read_number(fd, o->memory_now_file);
        for (size_t i = 0; used > most && i < ARRAY_SIZE(o->cache_keys); i++) {
                uint64_t cache = cgroup_read_key(fd, "memory.stat", o->cache_keys[i]);
                used -= cache < used ? cache : used;
        }
        return used;
}

bool cgroups_principal_has_reached_limit(struct cgroups *cgroups, uint32_t principal,
                                         uint64_t *seen)
{
        const struct cgroup_operations *o = cgroups->operations;
        _cleanup_group_ struct cgroup group;

        if (open_group(cgroups, principal, o->memory_controller, &group) < 0)
                return false;
        bool has = cgroup_has_reached_limit(&group, seen);
        if (!o->hits_file)
                (void)cgroup_write_number(cgroup_leaf_fd(&group, o->memory_controller),
                                          o->memory_file, 0);
        return has;
}

/* The kernel takes no weight of an idle group, and gives it the usual one when it is not idle any more. */
void cgroups_weigh(struct cgroups *cgroups, uint32_t principal, enum cgroup_part before,
                   enum cgroup_part part)
{
        const struct cgroup_operations *o = cgroups->operations;
        _cleanup_group_ struct cgroup group;

        if (open_group(cgroups, principal, o->cpu_limit_controller, &group) < 0)
                return;
        if (before == CGROUP_PART_REST || part == CGROUP_PART_REST)
                (void)cgroup_rest(&group, part == CGROUP_PART_REST);
        if (part == CGROUP_PART_BUSY || (part == CGROUP_PART_USUAL && before == CGROUP_PART_BUSY))
                (void)cgroup_be_busy(&group, part == CGROUP_PART_BUSY);
}

uint64_t cgroups_cpu_usec(struct cgroups *cgroups, uint32_t principal)
{
        _cleanup_group_ struct cgroup group;

        if (open_group(cgroups, principal, cgroups->operations->cpu_controller, &group) < 0)
                return 0;
        return cgroup_cpu_usec(&group);
}

void cgroups_forget_principal(struct cgroups *cgroups, uint32_t principal)
{
        char name[sizeof((struct cgroup){}.name)];

        (void)cgroup_spares_drop_of(cgroups, principal);
        name_group(principal, name, sizeof(name));
        for (size_t i = 0; i < cgroups->count; i++)
                (void)unlinkat(cgroups->items[i].fd, name, AT_REMOVEDIR);
}
