/*
 * Starts programs that read what hostile code sends, or have secrets: each in user, pid, mount, ipc and network namespaces of its own, as the
 * broker's user, with these descriptors and no others. A program has the capabilities of its user namespace until it gives them up.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

struct monitor;

enum { MONITOR_HELPER_FDS = 4 };

struct monitor_helper {
        const char *program; /* path */
        const char *name;    /* argv[0]; argv[1] is the uid that the program becomes, or -1 */
        const int *fds;      /* its descriptors 3 and above; at most MONITOR_HELPER_FDS */
        size_t n_fds;
        char *variable; /* NAME=value, its whole environment; or NULL */
};

/* Returns the pid, which is among the monitor's children, or negative errno. */
pid_t monitor_helper_start(struct monitor *monitor, const struct monitor_helper *helper,
                           struct error *err);
