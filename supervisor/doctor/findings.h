/*
 * Known problems of real machines that keep Cloister from running or weaken it: a table of name,
 * reason and fix.
 *
 * Whether one is present is computed from struct doctor_system alone, so that tests need no machine
 * that has the problem. problems.def has the rows. docs/troubleshooting.md has a section for each name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/mount.h"
#include "supervisor/monitor/process/refused-calls.h"

enum doctor_limits {
        DOCTOR_LIMITS_CGROUP,      /* memory, pids and cpu */
        DOCTOR_LIMITS_NO_CPU,      /* memory and pids */
        DOCTOR_LIMITS_UNDELEGATED, /* version 2 is mounted, but no group was delegated */
        DOCTOR_LIMITS_NONE,        /* no hierarchy can be used */
};

enum { DOCTOR_UNTRIED = -1 };

/* Whose label confines this process. */
enum doctor_label { DOCTOR_LABEL_NONE, DOCTOR_LABEL_APPARMOR, DOCTOR_LABEL_SELINUX };

/* The environment of Cloister, as far as known. The command that the report recommends depends on it. */
enum doctor_place {
        DOCTOR_PLACE_HOST,
        DOCTOR_PLACE_DOCKER,
        DOCTOR_PLACE_PODMAN,
        DOCTOR_PLACE_KUBERNETES,
        DOCTOR_PLACE_GITLAB,    /* a job of GitLab in a container: only its runner sets options */
        DOCTOR_PLACE_GITHUB,    /* a job of GitHub in a container: the workflow sets options */
        DOCTOR_PLACE_CONTAINER, /* another runtime, or an unknown one */
        DOCTOR_PLACE_UNIT,      /* a service of systemd */
};

/* The state of this system. Results of a trial are 0 (it worked), a positive errno value or
 * DOCTOR_UNTRIED. */
struct doctor_system {
        bool ordinary;           /* rootless: no privilege over ids */
        bool own_id;             /* all sessions have our own id */
        int userns;              /* making and mapping a user namespace */
        bool chrooted;           /* as far as known */
        int mounting;            /* a mount in it */
        int others;              /* the first other namespace that was refused */
        int proc;                /* a fresh proc */
        int root;                /* changing to a new root directory */
        int image;               /* opening the image's store for execution: EACCES on noexec */
        long userns_clone;       /* kernel.unprivileged_userns_clone; 1 where there is none */
        long userns_least;       /* the least of user.max_*_namespaces */
        long apparmor_restricts; /* kernel.apparmor_restrict_unprivileged_userns; 0 … */
        long memfd_noexec;       /* vm.memfd_noexec; 0 … */
        long ptrace_scope;       /* kernel.yama.ptrace_scope; -1 where there is none */
        int seccomp_mode;        /* of this process: 2 is a filter */
        struct mount_proc_covers proc_covers;
        bool proc_is_foreign; /* of another pid namespace, or missing */
        int proc_hides;       /* hidepid of /proc; 0: shows all */
        int landlock;         /* ABI; 0: none */
        struct refused_calls calls;
        enum doctor_label label;
        char label_text[128]; /* /proc/self/attr/current */
        enum doctor_place place;
        char core_pattern; /* its first character */
        enum doctor_limits limits;
        bool limits_own; /* code with our own id may be able to change them */
        bool is_bounded; /* a group above has a limit of memory */
};

/* Parsers without system calls: "Seccomp:" in the text of a status file; in that of a mountinfo file
 * what covers /proc, and its hidepid option. */
int doctor_seccomp_mode(const char *status);
void doctor_proc_mounts(const char *mountinfo, struct mount_proc_covers *covers, int *hides);
/* The kind of label that /proc/self/attr/current has: "docker-default (enforce)", "unconfined",
 * "system_u:system_r:container_t:s0". */
enum doctor_label doctor_label_kind(const char *text);

/* Reads sysctls and the files of this process. Results of trials are DOCTOR_UNTRIED. */
void doctor_system_read(struct doctor_system *ret);

enum doctor_state { DOCTOR_EFFECTIVE, DOCTOR_DEGRADED, DOCTOR_MISSING, DOCTOR_STATE_MAX };

struct doctor_problem {
        const char *name;        /* stable: letters, digits, dashes */
        enum doctor_state state; /* its effect: missing (Cloister does not run) or degraded */
        bool (*holds)(const struct doctor_system *system);
        const char *why;
        const char *fix;
};

extern const struct doctor_problem doctor_problems[];
extern const size_t doctor_n_problems;

/* One command that lifts all blockers which are known, "" if there is none. */
void doctor_remedy(const struct doctor_system *system, char *ret, size_t size);
