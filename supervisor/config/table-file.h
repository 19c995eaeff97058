/* The table of another system (docs/as.md): its check, and its next version while a server runs. */
#pragma once

#include "base/error.h"
#include "base/json.h"
#include "policy/config/config.h"
#include "policy/config/settings.h"

/* Parses a table alone. Every finding is an error, because nothing in it may be overlooked. The caller frees *ret, also on error. */
int table_file_check(const char *path, const char *data, size_t n, struct config **ret,
                     struct error *err);

/* After settings_apply(): checks the table again if a setting may have merged a part into it, for which lines are counted in the result. */
int table_file_check_merged(const char *path, const struct config_as *as, struct json_tree *table,
                            struct error *err);

/* The options that were given, as a JSON object, for table_file_again(). The caller frees it; NULL without memory. */
char *table_file_options(const struct settings_given *given);

/*
 * Reads the file again, and applies the options and the variables of this process's environment to it. Only what they write into the
 * table itself counts. Returns a sealed memfd that the caller owns, as the first one was made.
 */
int table_file_again(const char *path, const char *options, bool trusted_only, struct error *err);
