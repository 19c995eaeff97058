/*
 * `cloister doctor --attack`: runs the probe (probe.py) in a sandbox of a profile, by `cloister run`,
 * and looks at the processes of that sandbox from the host.
 *
 * The probe's rows are what the image's Python says. The rows of the host's view come from the
 * kernel alone. Each row has what is expected of this profile and what was found.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

enum attack_verdict { ATTACK_HELD, ATTACK_OPEN, ATTACK_UNTRIED, ATTACK_VERDICT_MAX };

enum { ATTACK_ROWS_MAX = 2048 };

struct attack_row {
        int number; /* of the class of attacks (docs/isolation.md); 0: none */
        char group[32], item[176], expected[176], found[176];
        enum attack_verdict verdict;
};

struct attack_rows {
        struct attack_row *items; /* owned */
        size_t n, of[ATTACK_VERDICT_MAX];
};

void attack_rows_done(struct attack_rows *rows);

/* Returns 0, -ENOMEM or -E2BIG. Texts are cut; control characters become '?'. */
int attack_add(struct attack_rows *rows, int number, const char *group, const char *item,
               const char *expected, const char *found, enum attack_verdict verdict);

/* Takes one line of the probe, which is untrusted. Returns 1 for the last line, 0 for a row, and
 * -EPROTO for anything else; *count is the number of rows in the last line. */
int attack_take_line(struct attack_rows *rows, char *line, size_t *count);

/* Adds rows about the processes of the sandbox that `cloister run` (the process pid) started.
 * has_proxy: its profile allows a network. Returns 0, -ESRCH if there is none, or another negative errno. */
int attack_posture(struct attack_rows *rows, pid_t pid, bool has_proxy, struct error *err);

/* To standard output. Returns 0 or negative errno. */
int attack_print_table(const struct attack_rows *rows, const char *profile, bool colour);
int attack_print_json(const struct attack_rows *rows, const char *profile);

struct options;

/* Uses configs, profile, image, python, store and json. Returns the exit status: 0 when nothing is open, EXIT_NO_SANDBOX where no sandbox can be created,
 * else 1. */
int attack_main(const struct options *options);
