/* Version 1: one hierarchy for each controller, and a leaf in the version 2 tree, which has no
 * controllers but can kill. */
#include "supervisor/monitor/cgroup/cgroup1.h"

#include <errno.h>

#include "supervisor/monitor/cgroup/cgroup-tree.h"

enum { PERIOD_US = 100000 };

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
static int set_memory(const struct cgroup *cgroup, uint64_t bytes, struct error *err)
{
        int fd = cgroup_leaf_fd(cgroup, CGROUP_MEMORY);

        (void)cgroup_write_number(fd, "memory.memsw.limit_in_bytes", bytes);
        int r = cgroup_set_number(cgroup, CGROUP_MEMORY, "memory.limit_in_bytes", bytes, err);
        return r < 0 ? r : set_swap(cgroup, bytes, err);
}

static int set_limits(const struct cgroup *cgroup, const struct limits *limits, struct error *err)
{
        int r = cgroup_set_number(cgroup, CGROUP_MEMORY, "memory.limit_in_bytes", limits->memory,
                                  err);
        if (r >= 0)
                r = set_swap(cgroup, limits->memory, err);
        if (r >= 0)
                r = cgroup_set_number(cgroup, CGROUP_PIDS, "pids.max", limits->pids, err);
        if (r >= 0 && limits->cpu_milli > 0 && cgroup_leaf_fd(cgroup, CGROUP_CPU) >= 0) {
                uint64_t quota = (uint64_t)limits->cpu_milli * (PERIOD_US / 1000);
                r = cgroup_set_number(cgroup, CGROUP_CPU, "cpu.cfs_period_us", PERIOD_US, err);
                if (r >= 0)
                        r = cgroup_set_number(cgroup, CGROUP_CPU, "cpu.cfs_quota_us", quota, err);
        }
        return r < 0 ? r : 0;
}

static uint64_t cpu_usec(const struct cgroup *cgroup)
{
        return cgroup_read_number(cgroup_leaf_fd(cgroup, CGROUP_CPUACCT), "cpuacct.usage") / 1000;
}

static uint32_t oom_kills(const struct cgroup *cgroup)
{
        return (uint32_t)cgroup_read_key(cgroup_leaf_fd(cgroup, CGROUP_MEMORY),
                                         "memory.oom_control", "oom_kill");
}

const struct cgroup_operations cgroup1_operations = {
        .version = CGROUP_V1,
        .set_limits = set_limits,
        .set_memory = set_memory,
        .cpu_limit_file = "cpu.cfs_quota_us",
        .cpu_limit_controller = CGROUP_CPU,
        .cpu_file = "cpuacct.usage",
        .cpu_controller = CGROUP_CPUACCT,
        .memory_file = "memory.max_usage_in_bytes",
        .memory_now_file = "memory.usage_in_bytes",
        .anonymous_key = "total_rss",
        .memory_controller = CGROUP_MEMORY,
        .cpu_usec = cpu_usec,
        .oom_kills = oom_kills,
};

int cgroup1_open(struct cgroups *cgroups, const struct cgroup_places *places, struct error *why)
{
        const unsigned required[] = {CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPUACCT};

        for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++) {
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
