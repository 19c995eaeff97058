/*
 * Patterns of paths and texts: * matches any characters except /, ** any characters, and every other character itself.
 * A part "/ ** /" (without the blanks) also matches a single /.
 *
 * A match takes at most one pass over the text: there is no backtracking.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "policy/rules/work.h"

enum { GLOB_MAX = 255 }; /* bytes of a pattern */

/* pattern: at most GLOB_MAX bytes. False also if the work is too much: work->fault is set then. */
bool glob_matches(const char *pattern, const char *text, size_t n, struct rules_work *work);
