/*
 * Known problems of real machines that keep Cloister from running or weaken it: a table of name,
 * reason and fix.
 *
 * Whether one is present is computed from struct doctor_system alone, so that tests need no machine
 * that has the problem. docs/troubleshooting.md has a section for each name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "supervisor/doctor/system.h"

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
