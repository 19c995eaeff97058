/*
 * The results of a cell besides its output: displays (DISPLAY frames) and the files below
 * /workspace/out that it made or changed (in RESULT). Both come from the worker; format and amount
 * are checked here.
 */
#pragma once

#include "base/error.h"
#include "base/json.h"
#include "supervisor/session/cell.h"

/* type/subtype in lower case, without parameters. */
bool mime_type_valid(const char *text, size_t n);

/* Takes a DISPLAY; beyond the limits in cell.h it is only counted. Returns 0,
 * -EBADMSG if it is malformed, or -ENOMEM. */
int cell_take_display(struct cell_outcome *outcome, yyjson_val *root, struct error *err);

/* Takes "files" (at most `most`) and "files_total" of an object; both are optional. The caller
 * frees *files, which has *n elements. Returns 0, -EBADMSG or -ENOMEM. */
int file_list_take(yyjson_val *object, size_t most, struct cell_file **files, size_t *n,
                   size_t *total, struct error *err);
