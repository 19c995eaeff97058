/* A real sandbox, made as `cloister run` makes one: by the monitor, the template and a session. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { ATTEMPT_SECONDS = 60 };

struct attempt {
        bool done;  /* false: the monitor could not be started; the reason is in why */
        int status; /* the exit status of the command; 0: the code ran and printed what it should */
        char why[500];  /* unless status is 0: what the command said, one line */
        double seconds; /* how long it took */
};

/* Runs 1+1 in a sandbox with the config of these files, and without their servers, in a profile
 * (NULL: the default one). Takes at most ATTEMPT_SECONDS: then the monitor is killed, which ends all
 * that it started. */
void attempt_run(const char *const *configs, size_t n_configs, const char *profile,
                 struct attempt *ret);

/* The remedy for an attempt that failed, by its error text; NULL: no remedy is known. */
const char *attempt_fix(const struct attempt *attempt);
