/* Text of results about a state that was restored or rolled back. Counts and names are the worker's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "supervisor/session/cell/cell.h"

/* Appends how many threads and processes do not exist any more since the copy was made. */
void rollback_append_gone(yyjson_val *root, char *to, size_t size);
/* Appends ": a, b and 3 more"; total: of these names. */
void rollback_append_names(yyjson_val *names, int64_t total, char *to, size_t size);
/* Appends that files stay, and which have changed. */
void rollback_append_files(yyjson_val *root, char *to, size_t size);
/* "rolled back: …" what: is as before it. has_calls: tool calls were sent, which stay. root: of RESTORED. */
void rollback_describe(const char *what, bool has_calls, yyjson_val *root, char to[CELL_WHY_MAX]);
