/* A trial of namespaces, mounts and filters, in a child that then exits. */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "supervisor/monitor/ids/ids.h"

enum { TRIAL_NOT_DONE = -1 };

/* Each is 0 (it worked), a positive errno value or TRIAL_NOT_DONE. */
struct trial {
        int mount_namespace;
        int mount; /* a tmpfs */
        int net_namespace;
        int ipc_namespace;
        int uts_namespace;
        int cgroup_namespace;
        int pid_namespace;
        int proc;            /* a mount of proc */
        int proc_subset;     /* a mount of proc with subset=pid */
        int root;            /* a new root directory, as a sandbox gets one */
        char root_step[200]; /* of root: what failed */
        int host_name;       /* setting it */
        int no_new_privs;
        int seccomp;      /* a filter was loaded and denied a call */
        int landlock_abi; /* the version; 0: none */
};

/* Tries with the ids that ids_choose() found. */
int trial_run(const struct ids *ids, struct trial *ret, struct error *err);
