/* The entry of a server in the config of another client. */
#pragma once

#include "supervisor/cli/config/import.h"

/* Translates a server's entry. notes gets what was lost; *why, if set, is why it cannot be
 * taken. */
int import_translate(struct import *import, const struct import_origin *origin, const char *name,
                     yyjson_val *entry, yyjson_mut_val **ret, struct buffer *notes,
                     const char **why, struct error *err);
