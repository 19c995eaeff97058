/* `cloister journal`: executed as cloister-journal. */
#pragma once

#include "supervisor/options/options.h"

int cli_journal_show(const struct options *o, const char *const *words, size_t n);
int cli_journal_verify(const struct options *o, const char *const *words, size_t n);
int cli_journal_key(const struct options *o, const char *const *words, size_t n);
