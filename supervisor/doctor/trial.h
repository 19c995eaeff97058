/* What of a sandbox the kernel lets us make, tried in a child that is thrown away. */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "supervisor/monitor/ids/ids.h"

enum { TRIAL_NOT_DONE = -1 };

/* Each: 0 when it worked, a positive errno value when not, TRIAL_NOT_DONE. */
struct trial {
        int mount_namespace;
        int mount; /* a tmpfs */
        int net_namespace;
        int ipc_namespace;
        int uts_namespace;
        int cgroup_namespace;
        int pid_namespace;
        int proc;        /* a whole proc of its own */
        int proc_subset; /* one with subset=pid */
        int no_new_privs;
        int seccomp;      /* a filter that denies a call, which was denied */
        int landlock_abi; /* the version; 0: none */
};

/* With the ids of a mode that ids_choose() found. */
int trial_run(const struct ids *ids, struct trial *ret, struct error *err);
