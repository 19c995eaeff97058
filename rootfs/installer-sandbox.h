/* The sandbox of the program that installs packages for sessions (docs/packages.md) and images (docs/images.md). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* All strings are borrowed. */
struct installer_sandbox {
        /* The directory that it may change: a path, and at most two names below it. NULL-terminated. Each directory must
         * belong to the user, and no other user may write to it. */
        const char *top[4];
        const char *root;         /* an empty directory for the mount points. NULL: a tmpfs */
        const char *const *shown; /* NULL-terminated: what else it may read. NULL: for a session */
        const char *python;       /* the interpreter that runs it */
        bool npm;                 /* npm and its Node are shown too */
        uint64_t size_max;        /* bytes that one file may have; 64 MiB in any case */
        int filter_fd;            /* FILTER_INSTALLER (owned) */
};

/* Returns 0 in a new process, which is confined: it executes the interpreter. The caller's own process stays
 * outside, bounds the memory of the new one, and exits with its status. Or returns negative errno. */
int installer_sandbox_enter(const struct installer_sandbox *how, struct error *err);
