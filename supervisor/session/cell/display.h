/*
 * The results of a cell besides its output: displays (DISPLAY frames) and the files below
 * /workspace/out that it made or changed (in RESULT). Both come from the worker; format and amount
 * are checked here.
 */
#pragma once

#include "base/error.h"
#include "base/json.h"
#include "supervisor/session/cell/cell.h"

/* type/subtype in lower case, without parameters. */
bool mime_type_valid(const char *text, size_t n);

/* A DISPLAY, in its document. */
struct display_view {
        const char *mime;
        const char *text; /* or base64 */
        size_t n;
        bool is_text, is_linked;
        yyjson_val *block; /* replaces these: a content block, or NULL */
};

/* Returns 0 or -EBADMSG; the second checks the data, which takes long if it is large. */
int display_check(yyjson_val *root, struct display_view *ret, struct error *err);
int display_check_data(const struct display_view *view, struct error *err);

/* Takes a DISPLAY; beyond the limits in cell.h it is only counted. *checked: a copy of its text or data,
 * of malloc(), which was checked and may be taken; checked, or *checked, may be NULL. Returns 0,
 * -EBADMSG if it is malformed, or -ENOMEM. */
int cell_take_display(struct cell_outcome *outcome, yyjson_val *root, char **checked,
                      struct error *err);

/* Takes "files" (at most `most`) and "files_total" of an object; both are optional. The caller
 * frees *files, which has *n elements. Returns 0, -EBADMSG or -ENOMEM. */
int file_list_take(yyjson_val *object, size_t most, struct cell_file **files, size_t *n,
                   size_t *total, struct error *err);
