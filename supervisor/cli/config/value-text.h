/* Where values are in the text of a JSON file (with comments) or a TOML file. The text has been parsed before: what the functions
 * do with another text is bounded by its length, and of no use. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct value_text {
        const char *text; /* borrowed */
        size_t n;
        bool is_toml;
};

/* A part of the text: from is its first byte, to is behind its last. Not found: both are 0. */
struct span {
        size_t from, to;
};

/* Behind white space, line breaks and comments. */
size_t value_text_skip_blank(const struct value_text *t, size_t at);

/* Behind the value that begins at `at`. */
size_t value_text_end(const struct value_text *t, size_t at);

/* The items of the array whose bracket is at `at`, at most `most`. Returns their number, or SIZE_MAX: it is not an array, or has more. */
size_t value_text_items(const struct value_text *t, size_t at, struct span *items, size_t most);

/*
 * The values of two keys of the TOML table [table.name], which is written as such a header, each once and on lines of its own
 * (not as an inline table or with dotted keys). Returns 1; 0: there is no such table, or it has no `first`.
 */
int value_text_toml(const struct value_text *t, const char *table, const char *name,
                    const char *first, const char *second, struct span *of_first,
                    struct span *of_second);
