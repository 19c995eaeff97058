/* Speculation in processes of sandboxes. */
#include "supervisor/doctor/speculation.h"

#include <stdio.h>
#include <string.h>

enum { CLASS = 127 };

/* "vulnerable" alone: the processor offers nothing that could be set. */
static bool is_open(const char *value)
{
        return strcmp(value, "thread vulnerable") == 0 || strcmp(value, "conditional enabled") == 0;
}

int speculation_add_row(struct attack_rows *rows, const char *role, const char *status)
{
        static const char line[] = "\nSpeculation_Store_Bypass:\t";
        const char *at = strstr(status, line);
        char found[64] = "cannot be read";

        if (at)
                snprintf(found, sizeof(found), "%.*s", (int)strcspn(at + strlen(line), "\n"),
                         at + strlen(line));
        return attack_add(rows, CLASS, role, "speculative store bypass", "not left to it", found,
                          !at              ? ATTACK_UNTRIED
                          : is_open(found) ? ATTACK_OPEN
                                           : ATTACK_HELD);
}

static bool is_of_guest(const struct attack_row *row)
{
        return strcmp(row->group, "worker") == 0 || strcmp(row->group, "identity") == 0;
}

void speculation_allow(struct attack_rows *rows)
{
        for (size_t i = 0; i < rows->n; i++) {
                struct attack_row *row = &rows->items[i];
                if (row->number != CLASS || row->verdict != ATTACK_OPEN || !is_of_guest(row) ||
                    !is_open(row->found))
                        continue;
                row->verdict = ATTACK_KNOWN;
                rows->of[ATTACK_OPEN]--;
                rows->of[ATTACK_KNOWN]++;
                snprintf(row->found, sizeof(row->found), "%s",
                         "not mitigated for this process: set \"speculation\": \"disabled\"");
        }
}
