/*
 * Landlock, as a second layer below mounts and filters. Every right that the kernel supports is denied
 * except on the named paths; also TCP, where `network` does not allow it, abstract sockets and signals
 * to processes outside. By raw system calls: libc has no wrappers, and the kernel's headers may be
 * older than the kernel.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* File system rights (Documentation/userspace-api/landlock.rst). Those that the kernel does not
 * support are ignored. */
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
        const char *path; /* ignored if it does not exist */
        uint32_t rights;
};

/* Returns the ABI version in use, 0 if the kernel has no Landlock, or negative errno. no_new_privs
 * must be set. Does not allocate. */
int landlock_confine(const struct landlock_rule *rules, size_t n, bool network, struct error *err);
