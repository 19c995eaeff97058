/* Translates an entry of another client's file into an entry of Cloister's config. */
#pragma once

#include "supervisor/cli/config/import.h"

/* *ret gets the new entry as JSON in one line, allocated. notes gets what was lost; *why, if set, is why the
 * entry cannot be taken. */
int import_translate(struct import *import, const struct import_origin *origin, const char *name,
                     yyjson_val *entry, char **ret, struct buffer *notes, const char **why,
                     struct error *err);
