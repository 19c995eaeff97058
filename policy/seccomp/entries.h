/* The table of a filter with the numbers of this machine's calls. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/seccomp/rules.h"

/* A table with names resolved, sorted by number. Names that this machine's architecture lacks are
 * left out. */
struct filter_entry {
        int number;
        struct filter_rule rule; /* without values */
};

struct filter_entries {
        uint32_t otherwise;
        struct filter_entry *entries; /* owned */
        size_t n_entries;
        size_t n_all; /* the entries after n_entries are the rules of other tables that compare
                         arguments; filter_check() tries their arguments too */
};

int filter_entries_init(struct filter_entries *entries, enum filter_kind kind,
                        int (*number)(const char *name), struct error *err);
void filter_entries_done(struct filter_entries *entries);

/* The answer of the table to one call; the architecture is ignored. */
uint32_t filter_decide(const struct filter_entries *entries, const struct seccomp_data *data);
