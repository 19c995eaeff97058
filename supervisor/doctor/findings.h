/*
 * What is known to stand in Cloister's way on real machines: one table, with a stable name, a why
 * and a fix each.
 *
 * Whether one holds is computed from facts alone, so that each can be tried without the machine
 * that has it. docs/troubleshooting.md has a section for each name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "supervisor/doctor/report.h"

enum doctor_limits {
        DOCTOR_LIMITS_CGROUP,      /* memory, pids and cpu */
        DOCTOR_LIMITS_NO_CPU,      /* memory and pids */
        DOCTOR_LIMITS_UNDELEGATED, /* version 2 is there, but no group of ours */
        DOCTOR_LIMITS_NONE,        /* nor that */
};

/* Codes are positive errno values, 0: it worked, DOCTOR_UNTRIED. */
enum { DOCTOR_UNTRIED = -1 };

struct doctor_facts {
        bool ordinary;           /* without privilege over ids: rootless */
        bool own_id;             /* all sessions have our own id */
        int userns;              /* making and mapping a user namespace */
        int mounting;            /* a mount in it */
        int others;              /* the first other namespace that was refused */
        int proc;                /* a fresh proc */
        int image;               /* opening the image's store for execution: EACCES on noexec */
        long userns_clone;       /* kernel.unprivileged_userns_clone; 1 where there is none */
        long userns_least;       /* the least of user.max_*_namespaces */
        long apparmor_restricts; /* kernel.apparmor_restrict_unprivileged_userns; 0 … */
        long memfd_noexec;       /* vm.memfd_noexec; 0 … */
        long ptrace_scope;       /* kernel.yama.ptrace_scope; -1 where there is none */
        int seccomp_mode;        /* of this process: 2 is a filter */
        int proc_masks;          /* mounts below /proc, other than automatic ones */
        int proc_hides;          /* hidepid of /proc; 0: shows all */
        int landlock;            /* ABI; 0: none */
        char core_pattern;       /* its first character */
        enum doctor_limits limits;
};

struct doctor_kind {
        const char *name; /* stable: letters, digits, dashes */
        enum doctor_state
                state; /* of what it spoils: missing (Cloister does not run) or degraded */
        bool (*holds)(const struct doctor_facts *facts);
        const char *why;
        const char *fix;
};

extern const struct doctor_kind doctor_kinds[];
extern const size_t doctor_n_kinds;

/* Pure, of files of proc: Seccomp of a status file; mounts below /proc and the hidepid option of
 * /proc itself from a mountinfo file. */
int doctor_seccomp_mode(const char *status);
void doctor_proc_mounts(const char *mountinfo, int *masks, int *hides);

/* From this process's own files and sysctls; what a trial finds is left untried. */
void doctor_facts_read(struct doctor_facts *ret);
