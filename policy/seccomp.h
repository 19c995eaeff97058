/*
 * System call filters as data: which calls each kind of process may make, with which arguments
 * (docs/seccomp.md). Tables only; the monitor compiles and exports them (supervisor/monitor/filter.h).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum filter_kind {
        FILTER_WORKER,   /* the guest: DESIGN §3 */
        FILTER_TEMPLATE, /* the worker's plus what making a session needs */
        FILTER_INIT,     /* PID 1 of a sandbox */
        FILTER_STUB,     /* PID 1 of the outer pid namespace: read and exit */
        FILTER_BROKER,   /* the broker after its start */
        FILTER_KIND_MAX,
};

const char *filter_kind_name(enum filter_kind kind);
