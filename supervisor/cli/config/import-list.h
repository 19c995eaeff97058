/* The servers of an import: taken, or left out. */
#pragma once

#include "supervisor/cli/config/import.h"

/* All return 0, or negative errno with an error; -ENOMEM anywhere ends the import. */

/* Reads the config at path, if there is one. */
int import_open(struct import *import, const char *path, bool copy, struct error *err);
void import_done(struct import *import);

/* One entry of a source. */
int import_take(struct import *import, const struct import_origin *origin, const char *name,
                yyjson_val *entry, struct error *err);
int import_leave_out(struct import *import, const struct import_origin *origin, const char *name,
                     const char *why, struct error *err);
