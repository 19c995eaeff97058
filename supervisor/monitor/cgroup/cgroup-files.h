/* The control group of a sandbox as files: our directory in each hierarchy, and the leaf in it. cgroup1.c, cgroup2.c and cgroup.c
 * are above it. */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "policy/limits.h"
#include "supervisor/monitor/cgroup/cgroup-place.h"

enum cgroup_version { CGROUP_NONE, CGROUP_V1, CGROUP_V2 };

struct cgroup;

/* A hierarchy in which we have groups. */
struct hierarchy {
        unsigned controllers; /* bits of enum cgroup_controller that our groups in it have */
        char *base_path;      /* the directory in which our parent directory is */
        char *path;           /* our parent directory */
        int base_fd;
        int fd; /* our parent directory, locked (flock) until the monitor ends */
};

struct cgroup {
        struct cgroups *owner; /* borrowed */
        char name[48];
        int fds[CGROUP_PLACES_MAX]; /* the leaf in each hierarchy, in the order of owner->items */
};

/* The differences between the versions. */
struct cgroup_operations {
        enum cgroup_version version;
        int (*set_limits)(const struct cgroup *cgroup, const struct limits *limits,
                          struct error *err);
        int (*set_memory)(const struct cgroup *cgroup, uint64_t bytes, struct error *err);
        const char *cpu_limit_file; /* in a leaf of cpu_limit_controller; absent without that
                                     * controller */
        enum cgroup_controller cpu_limit_controller;
        const char *cpu_file;    /* CPU time used, in cpu_controller's leaf */
        const char *memory_file; /* the highest memory use */
        const char *memory_now_file;
        const char *anonymous_key; /* of memory.stat */
        enum cgroup_controller cpu_controller, memory_controller;
        uint64_t (*cpu_usec)(const struct cgroup *cgroup);
        uint32_t (*oom_kills)(const struct cgroup *cgroup);
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
        uint32_t serial;
        uid_t lent_to; /* if is_lent: owner of cgroup.procs in our parent directory */
        bool is_lent;
        int mount;        /* detached mount of our parent directory, see cgroup-members.h; or -1 */
        bool mount_tried; /* making the mount was tried */
        char **leftovers; /* names of leaves to remove once their processes have ended */
        size_t n_leftovers;
        struct event *retry; /* removes leftovers; NULL before cgroups_set_loop() */
        int retry_ms;        /* until the next try */
};

/* Makes our parent directory below `base`. */
int cgroup_add_hierarchy(struct cgroups *cgroups, unsigned controllers, const char *base,
                         struct error *err);
/* Removes all leaves and, as far as we may, our parent directories. */
void cgroups_forget_hierarchies(struct cgroups *cgroups);

/* The leaf's directory in the hierarchy that has the controller, or -1. */
int cgroup_leaf_fd(const struct cgroup *cgroup, enum cgroup_controller controller);

/* Write one limit; errors name the file. */
int cgroup_set(const struct cgroup *cgroup, enum cgroup_controller controller, const char *file,
               const char *text, struct error *err);
int cgroup_set_number(const struct cgroup *cgroup, enum cgroup_controller controller,
                      const char *file, uint64_t value, struct error *err);
