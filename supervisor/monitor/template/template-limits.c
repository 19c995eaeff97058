/* The limits of a template. */
#include "supervisor/monitor/template/template-limits.h"

#include <unistd.h>

enum {
        PIDS_MIN = 16,        /* for the start of a template */
        CPU_MIN_MILLI = 1000, /* it makes the sessions of all */
        FILES_MIN = 256,
        SHARED_ID_FACTOR = 32, /* RLIMIT_NPROC of a template counts all of its sessions' processes
                                * where they have its id */
};

bool template_is_held(const struct cgroups *cgroups, const struct ids *ids)
{
        return cgroups_version(cgroups) != CGROUP_NONE &&
               (ids->first != geteuid() || cgroups_hold_owner(cgroups));
}

struct limits template_limits_fit(const struct limits *limits)
{
        struct limits l;

        if (limits)
                l = *limits;
        else
                limits_default(&l);
        if (l.pids < PIDS_MIN)
                l.pids = PIDS_MIN;
        if (l.cpu_milli > 0 && l.cpu_milli < CPU_MIN_MILLI)
                l.cpu_milli = CPU_MIN_MILLI;
        return l;
}

/* A session may write large files there, and inherits the limit of file sizes. */
static bool writes_to_host(const struct config_profile *profile)
{
        for (size_t i = 0; profile && i < profile->n_mounts; i++) {
                if (profile->mounts[i].writable)
                        return true;
        }
        return false;
}

struct template_rlimits template_rlimits_choose(const struct limits *limits, bool has_group,
                                                bool shares_id,
                                                const struct config_profile *profile)
{
        struct template_rlimits ret = {
                .files = limits->open_files < FILES_MIN ? FILES_MIN : limits->open_files,
                .data = UINT64_MAX,
                .file_size = UINT64_MAX,
                .processes = UINT64_MAX,
        };

        if (has_group)
                return ret;
        ret.data = limits->memory;
        ret.processes = (uint64_t)limits->pids * (shares_id ? SHARED_ID_FACTOR : 1);
        if (!writes_to_host(profile))
                ret.file_size = limits->memory;
        return ret;
}
