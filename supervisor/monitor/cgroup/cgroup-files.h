/* The control group of a sandbox as files: our directory in each hierarchy, and the leaf in it. cgroup-versions.c and cgroup.c
 * are above it. */
#pragma once

#include <event2/event.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "policy/limits.h"

enum cgroup_controller {
        CGROUP_MEMORY = 1 << 0,
        CGROUP_PIDS = 1 << 1,
        CGROUP_CPU = 1 << 2,
        CGROUP_CPUACCT = 1 << 3,
        CGROUP_UNIFIED = 1 << 4, /* the version 2 tree, with any controllers */
};

enum { CGROUP_PLACES_MAX = 8, CGROUP_PERIOD_US = 100000 /* of a leaf's limit of processor time */ };

/* A mounted hierarchy that shows our group. */
struct cgroup_place {
        unsigned controllers; /* of enum cgroup_controller; version 1 mounts may hold several */
        bool nsdelegate;      /* version 2: mounted with this option (cgroups(7)) */
        char mount[PATH_MAX]; /* the mount point */
        char own[PATH_MAX];   /* our own cgroup's directory, at or below mount */
};

struct cgroup_places {
        struct cgroup_place items[CGROUP_PLACES_MAX];
        size_t count;
};

/* Parses the texts of both files. Hierarchies without these controllers are left out. */
void cgroup_places_parse(const char *mountinfo, const char *self, struct cgroup_places *ret);

/* Reads both files. *ret is owned by the caller (free()). */
int cgroup_places_read(struct cgroup_places **ret, struct error *err);

/* The place of a controller, or NULL. */
const struct cgroup_place *cgroup_place_of(const struct cgroup_places *places,
                                           enum cgroup_controller controller);

/* Writes one attribute file of a cgroup directory in one write. Returns 0 or negative errno. */
int cgroup_write(int dir_fd, const char *file, const char *text);
int cgroup_write_number(int dir_fd, const char *file, uint64_t value);

/* Reads one, NUL-terminated and cut at size - 1. Returns its length or negative errno. */
int cgroup_read(int dir_fd, const char *file, char *text, size_t size);
uint64_t cgroup_read_number(int dir_fd, const char *file); /* 0 on failure */

/* The number after "key " at the start of a line; 0 when there is none. */
uint64_t cgroup_read_key(int dir_fd, const char *file, const char *key);

/*
 * Kills all processes in a tree, with cgroup.kill where the kernel has it, and removes it, leaves
 * first. Repeats for timeout_ms while processes end. Returns 0 when it was removed, -EBUSY when
 * processes or groups are left, -EACCES when only its topmost directory may not be removed.
 */
int cgroup_tree_remove(int parent_fd, const char *name, int timeout_ms);

/* Removes what has no processes of a tree, and kills none. Returns 0 when nothing is left of it. */
int cgroup_tree_prune(int parent_fd, const char *name);

enum cgroup_version { CGROUP_NONE, CGROUP_V1, CGROUP_V2 };

struct cgroup;

/* A hierarchy in which we have groups. */
struct hierarchy {
        unsigned controllers; /* bits of enum cgroup_controller that our groups in it have */
        char *base_path;      /* the directory in which our parent directory is */
        char *path;           /* our parent directory */
        int base_fd;
        int parent_fd; /* our parent directory, locked (flock) until the monitor ends */
        int fd;        /* "sandboxes" in it: the leaves exist */
        int home_fd;   /* our own group before cgroups_enter(); -1: we are still there */
};

struct cgroup {
        struct cgroups *owner;      /* borrowed */
        char name[48];              /* its path from "sandboxes" */
        int fds[CGROUP_PLACES_MAX]; /* the leaf in each hierarchy, in the order of owner->items */
        bool is_lent;               /* its cgroup.procs belongs to a template */

        /* For cgroup-spare.h: */
        bool is_reusable; /* a session's */
        bool is_frozen, rests;
        uint32_t principal;
        struct limits limits; /* that are set */
        uint64_t spare_since_ms;
};

/* The differences between the versions. */
struct cgroup_operations {
        enum cgroup_version version;
        int (*set_limits)(const struct cgroup *cgroup, const struct limits *limits,
                          struct error *err);
        int (*set_memory)(const struct cgroup *cgroup, uint64_t bytes, struct error *err);
        int (*set_cpu)(const struct cgroup *cgroup, uint32_t milli, uint32_t period_us,
                       struct error *err);
        const char *cpu_limit_file; /* in a leaf of cpu_limit_controller; absent without that
                                     * controller */
        enum cgroup_controller cpu_limit_controller;
        const char *cpu_file; /* CPU time used, in cpu_controller's leaf */
        const char *cpu_key;  /* of it: microseconds; NULL: the file is a number of nanoseconds */
        const char *memory_file; /* the highest memory use */
        const char *memory_now_file;
        const char *anonymous_key; /* this and the next two: of memory.stat */
        const char *cache_keys[2]; /* pages that the kernel can free */
        const char *limit_file;    /* the limit of memory */
        const char *
                hits_file; /* has the key oom: how often the group's own limit was reached; or NULL */
        const char *oom_file; /* has the key oom_kill */
        enum cgroup_controller cpu_controller, memory_controller;
};

struct cgroups {
        const struct cgroup_operations *operations; /* NULL: CGROUP_NONE */
        struct hierarchy items[CGROUP_PLACES_MAX];
        size_t count;
        char name[48]; /* of our parent directories */
        bool bounds_cpu;
        bool is_ours;          /* the argument of cgroups_open() */
        bool holds_owner;      /* see cgroups_hold_owner() */
        bool wants_delegation; /* version 2 is mounted, but no group was delegated to us */
        bool may_stay;         /* see cgroups_may_stay() */
        uint32_t serial;
        uid_t lent_to; /* if is_lent: owner of cgroup.procs in our parent directory */
        gid_t lent_to_group;
        bool is_lent;
        int mount;        /* detached mount of our parent directory, see cgroup.c; or -1 */
        bool mount_tried; /* making the mount was tried */
        char **leftovers; /* names of leaves to remove once their processes have ended */
        size_t n_leftovers;
        struct event *retry;    /* removes leftovers; NULL before cgroups_set_loop() */
        int retry_ms;           /* until the next try */
        struct cgroup **spares; /* cgroup-spare.h; those that were emptied first come first */
        size_t n_spares;
        struct event *sweep; /* removes spares; NULL before cgroups_set_loop() */
};

/* Makes our parent directory below `base`. */
int cgroup_add_hierarchy(struct cgroups *cgroups, unsigned controllers, const char *base,
                         struct error *err);
/* Goes back to our own group, removes all sandboxes and, as far as we may, our parent directories. Servers are not killed:
 * while one runs, its group and those above remain. */
void cgroups_forget_hierarchies(struct cgroups *cgroups);

/* Whether processes of the group are in this hierarchy as well. The supervisor and servers are not in version 1's for processor time:
 * beside sandboxes that compute they would wait for the slices of sandboxes there (4 ms; in no group 0.3 ms). */
bool cgroup_is_used_in(const struct cgroup *cgroup, size_t hierarchy);

/* The leaf's directory in the hierarchy that has the controller, or -1. */
int cgroup_leaf_fd(const struct cgroup *cgroup, enum cgroup_controller controller);

/* Writes one limit; errors name the file. */
int cgroup_set_number(const struct cgroup *cgroup, enum cgroup_controller controller,
                      const char *file, uint64_t value, struct error *err);
