/*
 * Labels of a tool: what its results bring into a session, and whether a call of it sends to places outside.
 *
 * The key "labels" of a server: {"returns": ["private", "untrusted"], "sends": "open" | "closed", "tools": {PATTERN: {the first
 * two}}}. The first pattern that matches the tool and says it decides, otherwise the server's own value. Without both, the
 * annotation openWorldHint decides, true where it is missing: untrusted and open; false: no label and closed.
 */
#pragma once

#include <stdbool.h>
#include <yyjson.h>

#include "base/error.h"

enum { LABELS_TOOLS_MAX = 64 };

extern const char *const label_names[]; /* by bit: "private", "untrusted", NULL */

/* The bit of a label, or 0; name may be NULL. */
unsigned label_find(const char *name);

struct labels {
        unsigned returns; /* RULES_PRIVATE… (rule.h) */
        bool is_open;
};

/* The error is a clause. *at: the value that it is about. Returns 0 or -EINVAL. */
int labels_check(yyjson_val *value, yyjson_val **at, struct error *err);

/* text: a value that was checked, as JSON, or NULL. annotations: of the tool, or NULL. */
struct labels labels_of(const char *text, const char *tool, yyjson_val *annotations);
