/* The layers that the doctor checked, and the report about them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "supervisor/doctor/findings.h"

enum { DOCTOR_FINDINGS_MAX = 64 };

struct doctor_finding {
        const char *name; /* a literal */
        enum doctor_state state;
        bool required; /* Cloister does not run when it is missing */
        char detail[600];
        char fix[300]; /* "": none is needed */
};

struct doctor {
        struct doctor_finding items[DOCTOR_FINDINGS_MAX];
        size_t count;
        struct doctor_system *system; /* borrowed; NULL: report no known problems */
        bool tried; /* a real sandbox; its exit status follows, and decides alone */
        int status;
};

/* Adds a layer; at most DOCTOR_FINDINGS_MAX. fix may be NULL. */
void doctor_add(struct doctor *d, const char *name, enum doctor_state state, bool required,
                const char *fix, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* The real sandbox ran. If none was tried: no required layer is missing, and no known problem keeps
 * Cloister from running. */
bool doctor_usable(const struct doctor *d);

/* To standard output. Returns 0 or negative errno. */
int doctor_print_table(const struct doctor *d, bool colour);
int doctor_print_json(const struct doctor *d);

/* The attempt to run code in a real sandbox, made by the monitor, the template and a session. */
struct attempt {
        bool done;  /* false: the monitor could not be started; the reason is in why */
        int status; /* the exit status of the command; 0: the code ran and printed what it should */
        char why[500];  /* unless status is 0: what the command said, one line */
        double seconds; /* how long it took */
};

/* The remedy for an attempt that failed, by its error text; NULL: no remedy is known. */
const char *attempt_fix(const struct attempt *attempt);
/* Adds the row of the real sandbox. If it ran, layers that seemed to be missing become degraded. */
void doctor_take_attempt(struct doctor *d, const struct attempt *attempt);
