/*
 * The results of a cell besides its output: RESULT, which says how it ended; displays (DISPLAY frames); and the files below
 * /workspace/out that it made or changed (in RESULT). All come from the worker; format and amount are checked here.
 */
#pragma once

#include "base/error.h"
#include "base/json.h"
#include "supervisor/session/cell/cell.h"

/*
 * Takes the worker's RESULT into the outcome, which becomes the owner of the document. The worker's statuses are "ok", "error",
 * "exit" and "interrupted". Returns 0, or -EBADMSG if it has another form.
 */
int cell_take_result(struct cell *cell, yyjson_doc **doc, struct error *err);

/* type/subtype in lower case, without parameters. */
bool mime_type_valid(const char *text, size_t n);

/* A DISPLAY, in its document. */
struct display_view {
        const char *mime;
        const char *text; /* or base64 */
        size_t n;
        uint64_t id; /* 0: it replaces none */
        bool is_text, is_linked;
        yyjson_val *block; /* replaces these: a content block, or NULL */
};

/* Returns 0 or -EBADMSG. */
int display_check(yyjson_val *root, struct display_view *ret, struct error *err);
/* Checks the data and copies the text, the data or the block as JSON, of view->n bytes, to memory of malloc(). Takes long if
 * it is large. Returns 0, -EBADMSG or -ENOMEM. */
int display_copy(struct display_view *view, char **ret, struct error *err);

/* Takes a DISPLAY; beyond the limits in cell.h it is only counted. *checked: a copy of its text or data,
 * of malloc(), which was checked and may be taken; checked, or *checked, may be NULL. Returns 0,
 * -EBADMSG if it is malformed, or -ENOMEM. */
int cell_take_display(struct cell_outcome *outcome, yyjson_val *root, char **checked,
                      struct error *err);

/* Takes "files" (at most `most`) and "files_total" of an object; both are optional. The caller
 * frees *files, which has *n elements. Returns 0, -EBADMSG or -ENOMEM. */
int file_list_take(yyjson_val *object, size_t most, struct cell_file **files, size_t *n,
                   size_t *total, struct error *err);

/* Content blocks of MCP: their form is checked, and other members pass unchanged. */

/* text, image, audio, resource or resource_link. Returns 0 or -EBADMSG. */
int content_block_check(yyjson_val *block, struct error *err);

/* {"uri", "mimeType"?, "text"} or {"uri", "mimeType"?, "blob": base64}. uri may be absent where the
 * caller adds it. */
int content_resource_check(yyjson_val *resource, bool needs_uri, struct error *err);
