/* "journal" of a profile: the record of what its code has called (docs/journal.md). */
#pragma once

#include "policy/config/reader.h"

/* The functions of the rows of CONFIG_JOURNAL (codes.def). */
config_code_fn config_read_journal, config_check_keep;

/* All profiles of a server write into one journal. Returns false if none has one. *max: bytes; *keep_s: seconds: the largest of
 * the profiles. */
bool config_journal_limits(const struct config *config, uint64_t *max, uint64_t *keep_s);
