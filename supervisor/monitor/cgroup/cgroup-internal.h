/* Shared by cgroup.c and the files of the two versions; not for others. */
#pragma once

#include "supervisor/monitor/cgroup/cgroup-place.h"
#include "supervisor/monitor/cgroup/cgroup.h"

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
        int mount;        /* detached mount of our parent directory, see cgroup-members.c; or -1 */
        bool mount_tried; /* making the mount was tried */
        char **leftovers; /* names of leaves to remove once their processes have ended */
        size_t n_leftovers;
        struct event *retry; /* removes leftovers; NULL before cgroups_set_loop() */
        int retry_ms;        /* until the next try */
};

extern const struct cgroup_operations cgroup1_operations, cgroup2_operations;

/* The leaf's directory in the hierarchy that has the controller, or -1. */
int cgroup_leaf_fd(const struct cgroup *cgroup, enum cgroup_controller controller);

/* Write one limit; errors name the file. */
int cgroup_set(const struct cgroup *cgroup, enum cgroup_controller controller, const char *file,
               const char *text, struct error *err);
int cgroup_set_number(const struct cgroup *cgroup, enum cgroup_controller controller,
                      const char *file, uint64_t value, struct error *err);

/* Makes our parent directory below `base`. */
int cgroup_add_hierarchy(struct cgroups *cgroups, unsigned controllers, const char *base,
                         struct error *err);

/* Sets up a version. 0: done; -EOPNOTSUPP: not mounted here; other errors: mounted, but we may
 * not use it (*why). */
int cgroup1_open(struct cgroups *cgroups, const struct cgroup_places *places, struct error *why);
int cgroup2_open(struct cgroups *cgroups, const struct cgroup_places *places, struct error *why);
