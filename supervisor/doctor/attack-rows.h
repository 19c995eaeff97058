/* The rows of a battery: what was tried, what is expected, what was found. Printed as a table or as JSON. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum attack_verdict {
        ATTACK_HELD,
        ATTACK_OPEN,
        ATTACK_UNTRIED,
        ATTACK_KNOWN, /* open, and the profile allows it */
        ATTACK_VERDICT_MAX
};

enum { ATTACK_ROWS_MAX = 2048 };

struct attack_row {
        int number; /* of the class of attacks (docs/isolation.md); 0: none */
        char group[32], item[176], expected[176], found[176];
        enum attack_verdict verdict;
};

struct attack_rows {
        struct attack_row *items; /* owned */
        size_t n, of[ATTACK_VERDICT_MAX];
        int error; /* the first: -ENOMEM or -E2BIG; nothing is added after it */
};

void attack_rows_done(struct attack_rows *rows);

/* Texts are cut; control characters become '?'. */
void attack_add(struct attack_rows *rows, int number, const char *group, const char *item,
                const char *expected, const char *found, enum attack_verdict verdict);

/* Takes one line of the probe, which is untrusted. Returns 1 for the last line, 0 for a row, and
 * -EPROTO for anything else; *count is the number of rows in the last line. */
int attack_take_line(struct attack_rows *rows, char *line, size_t *count);

/* To standard output. Returns 0 or negative errno. */
int attack_print_table(const struct attack_rows *rows, const char *profile, bool colour);
/* allowed: the config itself says that the known rows may stay open. */
int attack_print_json(const struct attack_rows *rows, const char *profile, bool allowed);

/* Adds the row of store bypass in a process, from the text of its status. */
void attack_add_speculation(struct attack_rows *rows, const char *role, const char *status);

/* Of a profile whose sessions have "speculation": "shared": its open rows of the guest are known, and name the setting. Rows
 * of init stay open. */
void attack_allow_speculation(struct attack_rows *rows);
