/* What cgroup.c and its two versions share. Not for others. */
#pragma once

#include "supervisor/monitor/cgroup/cgroup-place.h"
#include "supervisor/monitor/cgroup/cgroup.h"

/* One hierarchy that we use. */
struct hierarchy {
        unsigned controllers; /* of enum cgroup_controller, as the directories below have them */
        char *base_path;      /* the directory that our parent lies in */
        char *path;           /* our parent directory */
        int base_fd;
        int fd; /* our parent directory, locked (flock) as long as we live */
};

struct cgroup {
        struct cgroups *owner; /* borrowed */
        char name[48];
        int fds[CGROUP_PLACES_MAX]; /* the leaf in each hierarchy, as owner->items */
};

/* What a version does differently. */
struct cgroup_operations {
        enum cgroup_version version;
        int (*set_limits)(const struct cgroup *cgroup, const struct limits *limits,
                          struct error *err);
        const char *cpu_limit_file; /* in a leaf of cpu_limit_controller, where that is to be had */
        enum cgroup_controller cpu_limit_controller;
        const char *cpu_file;    /* of the facts; where to find it: cpu_controller */
        const char *memory_file; /* the highest use */
        const char *memory_now_file;
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
        bool is_ours;          /* as cgroups_open() was told */
        bool wants_delegation; /* version 2 is here, but no group of our own */
        uint32_t serial;
        uid_t lent_to; /* owner of our parent's cgroup.procs, where is_lent */
        bool is_lent;
        int view; /* our parent directory as a template may hold it, see cgroup-members.c; -1 */
        bool has_view;    /* it was tried */
        char **leftovers; /* names of leaves to remove once their processes have ended */
        size_t n_leftovers;
        struct event *retry; /* removes leftovers; NULL before cgroups_set_loop() */
        int retry_ms;        /* until the next try */
};

extern const struct cgroup_operations cgroup1_operations, cgroup2_operations;

/* The leaf's directory in the hierarchy that has the controller, or -1. */
int cgroup_leaf_fd(const struct cgroup *cgroup, enum cgroup_controller controller);

/* Writes limits; which names the file in the error. */
int cgroup_set(const struct cgroup *cgroup, enum cgroup_controller controller, const char *file,
               const char *text, struct error *err);
int cgroup_set_number(const struct cgroup *cgroup, enum cgroup_controller controller,
                      const char *file, uint64_t value, struct error *err);

/* Makes our parent directory below `base`. */
int cgroup_add_hierarchy(struct cgroups *cgroups, unsigned controllers, const char *base,
                         struct error *err);

/* Sets up a version where this machine has it: 0; -EOPNOTSUPP: has it not; else it is there but not
 * for us (why). */
int cgroup1_open(struct cgroups *cgroups, const struct cgroup_places *places, struct error *why);
int cgroup2_open(struct cgroups *cgroups, const struct cgroup_places *places, struct error *why);
