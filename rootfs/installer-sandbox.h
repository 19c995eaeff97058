/* The sandbox of the program that installs packages for sessions (docs/packages.md). */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* All strings are borrowed. */
struct installer_sandbox {
        const char *store;
        const char *profile; /* whose directory in the store it may change */
        const char *python;  /* the interpreter that runs it */
        uint64_t size_max;   /* packages.max_size */
        int filter_fd;       /* FILTER_INSTALLER (owned) */
};

/* Returns 0 in a new process, which is confined: it executes the interpreter. The caller's own process stays
 * outside, bounds the memory of the new one, and exits with its status. Or returns negative errno. */
int installer_sandbox_enter(const struct installer_sandbox *how, struct error *err);
