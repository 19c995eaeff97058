/*
 * Landlock as a second belt under mounts and filters: what is not named is denied, with every right
 * that the kernel knows; no TCP where `network` does not allow it, no abstract sockets and no
 * signals to outside. By raw system calls: libc has no wrappers, and older headers know older
 * kernels only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Rights of the file system (Documentation/userspace-api/landlock.rst); what the kernel does not
 * know is left out. */
enum {
        LANDLOCK_EXECUTE = 1 << 0,
        LANDLOCK_WRITE_FILE = 1 << 1,
        LANDLOCK_READ = 1 << 2 | 1 << 3, /* files and directories */
        LANDLOCK_CHANGE = 0x3ff2,        /* write, remove, make, rename; not execute or read */
        LANDLOCK_TRUNCATE = 1 << 14,
        LANDLOCK_DEVICE_IOCTL = 1 << 15,
        LANDLOCK_ALL = 0xffff,
};

struct landlock_rule {
        const char *path; /* one that does not exist needs no rule */
        uint32_t rights;
};

/* Returns the ABI in force, 0 where the kernel has none, negative errno. no_new_privs must be set.
 * Allocates nothing. */
int landlock_confine(const struct landlock_rule *rules, size_t n, bool network, struct error *err);
