/* Checks the layers that depend on the kernel. */
#pragma once

#include "base/error.h"
#include "supervisor/doctor/report.h"
#include "supervisor/monitor/ids/ids.h"

void doctor_check_kernel(struct doctor *d);

enum { TRIAL_NOT_DONE = -1 };

enum trial_namespace {
        TRIAL_MOUNT,
        TRIAL_NET,
        TRIAL_IPC,
        TRIAL_UTS,
        TRIAL_CGROUP,
        TRIAL_PID,
        TRIAL_NAMESPACES,
};

/* Each is 0 (it worked), a positive errno value or TRIAL_NOT_DONE. */
struct trial {
        int namespaces[TRIAL_NAMESPACES];
        int mount;           /* a tmpfs */
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
