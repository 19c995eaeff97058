/*
 * What a search of the tools reads: the words of their names, descriptions and parameters, made once from a
 * catalogue and shared by all sessions that see it.
 *
 * A search may be made in any thread. The index is made by the first one, because that takes
 * longer than the loop may wait; until then it is only a copy of the catalogue.
 */
#pragma once

#include <stddef.h>

#include "base/buffer.h"

struct tool_index;

enum {
        TOOL_SEARCH_WORDS_MAX = 16,   /* of a query; the rest is ignored */
        TOOL_SEARCH_BYTES_MAX = 2048, /* of a query; the rest is ignored */
        TOOL_SEARCH_ANSWER_MAX = 16 * 1024 * 1024,
};

/* catalogue: the payload of a CATALOG frame, as hub_catalogue_build() writes it; it is copied. NULL: out of memory. */
struct tool_index *tool_index_new(const struct buffer *catalogue);
/* An index is counted, in any thread. */
struct tool_index *tool_index_ref(struct tool_index *index);
struct tool_index *tool_index_unref(struct tool_index *index);

/*
 * Appends {"tools":[{"server","tool":{as in the catalogue}}]}: at most `limit` tools, the best first. In this order count: the
 * query is the name; it is the name's words; the name's words begin with it; then the words of the query
 * that are words of the name, parts of it, words of the server's name, of the description, of the
 * parameters. Words are compared without their endings and without case. A query without words finds all tools,
 * in the order of the catalogue. Returns 0, -EMSGSIZE, -ENOMEM.
 */
int tool_index_search(struct tool_index *index, const char *query, size_t n, size_t limit,
                      struct buffer *to);
