/*
 * A host directory that a profile mounts. The monitor opens it once, with its own rights, and refuses
 * a directory that would let code out of the sandbox.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "policy/config/config.h"
#include "supervisor/monitor/ids/ids.h"

enum mount_guard_kind {
        MOUNT_GUARD_DIRECTORY, /* no mount of what is in it, and no read-write mount that holds it */
        MOUNT_GUARD_FILE,      /* no read-write mount that holds it */
        MOUNT_GUARD_PRIVATE,   /* no mount of what is in it, and none that holds it */
};

/* A path of Cloister that no sandbox may mount. */
struct mount_guard {
        char path[512];
        const char *what; /* "the image store" */
        enum mount_guard_kind kind;
};

enum { MOUNT_GUARDS_MAX = 128 };

struct mount_guards {
        struct mount_guard items[MOUNT_GUARDS_MAX];
        size_t n;
};

/* -E2BIG when there are too many: then nothing may be mounted. */
int mount_guards_add(struct mount_guards *guards, const char *path, const char *what,
                     enum mount_guard_kind kind, struct error *err);

/*
 * Returns an O_PATH descriptor of the directory. Refused (-EPERM) are: the root directory; /proc,
 * /sys, /dev and every kernel file system, also where it is mounted below the directory; a guarded
 * path, and a directory above one, as its kind tells; read-write where sandboxes do not have our own id.
 */
int mount_source_open(const struct config_mount *mount, const struct ids *ids,
                      const struct mount_guards *guards, struct error *err);
