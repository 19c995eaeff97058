/*
 * Finds where a value may begin in a text, by the first bytes of all forms of all values at once: most of a text is skipped, and the
 * automata of mask.c search only the rest. Wu and Manber's shifts ("A Fast Algorithm for Multi-Pattern Searching", 1994), by pairs of bytes.
 */
#pragma once

#include <stddef.h>

#include "supervisor/secrets/forms.h"

struct mask_filter;

/* texts: borrowed while the filter lives. NULL: no memory. */
struct mask_filter *mask_filter_new(const struct secret_form *texts, size_t n);
struct mask_filter *mask_filter_free(struct mask_filter *filter);

/* The number of bytes at the front in which none of the texts begins, also none that would continue behind n. */
size_t mask_filter_skip(const struct mask_filter *filter, const char *text, size_t n);
