/*
 * A host directory that a profile mounts: opened by the monitor with its own rights, once, and
 * refused where it would open the sandbox.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "policy/config.h"
#include "supervisor/monitor/ids/ids.h"

/* A path of ours that no sandbox may have. */
struct mount_guard {
        char path[512];
        const char *what; /* "the image store" */
        bool is_file;     /* refused only below a directory that is mounted read-write */
};

enum { MOUNT_GUARDS_MAX = 128 };

struct mount_guards {
        struct mount_guard items[MOUNT_GUARDS_MAX];
        size_t n;
};

/* What does not fit is -E2BIG: then nothing may be mounted. */
int mount_guards_add(struct mount_guards *guards, const char *path, const char *what, bool is_file,
                     struct error *err);

/*
 * Returns an O_PATH descriptor of the directory. Refused (-EPERM) are the root, /proc, /sys, /dev
 * and kernel file systems wherever they are, also mounted below; what is ours, and read-write what
 * has something of ours below; read-write where sandboxes do not have the id of who owns us.
 */
int mount_source_open(const struct config_mount *mount, const struct ids *ids,
                      const struct mount_guards *guards, struct error *err);
