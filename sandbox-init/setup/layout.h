/*
 * What a sandbox looks like from inside, and where the template keeps its descriptors across its
 * exec. Data only; docs/architecture.md tells the order of the steps.
 */
#pragma once

#include <stdint.h>

/* Descriptors of cloister-worker as a template; TEMPLATE_CONTROL_FD is 3. */
enum {
        LAYOUT_INIT_FD = 4,
        LAYOUT_WORKER_FILTER_FD = 5,
        LAYOUT_INIT_FILTER_FD = 6,
        LAYOUT_FD_END = 7,
};

/* The RPC socket is this far below the limit of open files, where code that counts up does not meet
 * it. */
enum { LAYOUT_RPC_FD_MARGIN = 24 };

#define LAYOUT_HOSTNAME  "cloister"
#define LAYOUT_WORKSPACE "/workspace"

/* The whole environment of the guest. */
#define LAYOUT_ENVIRONMENT                                                                         \
        {                                                                                          \
                "PATH=/usr/local/bin:/usr/bin:/bin", ("HOME=" LAYOUT_WORKSPACE), "USER=agent",     \
                        "LOGNAME=agent", "SHELL=/bin/sh", "LANG=C.UTF-8", "LC_ALL=C.UTF-8",        \
                        "TMPDIR=/tmp", "TZ=UTC", "TERM=dumb", NULL                                 \
        }
