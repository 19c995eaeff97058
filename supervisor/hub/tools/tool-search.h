/*
 * Searches the tools of a catalogue. A search reads the whole catalogue and keeps nothing. With 10,000 tools
 * (2.6 MB) it takes 17 ms, and 31 ms if 16 words are in all of them (measured while other programs used
 * both cores). It may run in any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/*
 * Appends " word word … ": "listEvents", "list-events" and "List events" have the same words. stems:
 * without the English endings ing, es, ed and s, if three bytes remain. Bytes that are not UTF-8 separate
 * words. At most `most` words are appended. Returns their number, -EMSGSIZE or -ENOMEM.
 */
int tool_words_append(struct buffer *to, const char *text, size_t n, bool stems, int most);

enum {
        TOOL_SEARCH_WORDS_MAX = 16,   /* of a query; the rest is ignored */
        TOOL_SEARCH_BYTES_MAX = 2048, /* of a query; the rest is ignored */
        TOOL_SEARCH_ANSWER_MAX = 16 * 1024 * 1024,
};

/*
 * Appends {"tools":[{"server","tool":{as in the catalogue}}]}: at most `limit` tools, the best first.
 * catalogue: the payload of a CATALOG frame, as hub_catalogue_build() writes it. The rank of a tool
 * depends, in this order, on whether the query is its name, is the words of its name, or is how these
 * words begin; then on the words of the query that are words of its name, parts of these, words of its
 * server's name, of its description, and of its parameters. Words are compared without their endings and
 * without case. A query without words finds all tools, in the order of the catalogue. Returns 0,
 * -EMSGSIZE, -ENOMEM, -EBADMSG.
 */
int tool_search(const struct buffer *catalogue, const char *query, size_t n, size_t limit,
                struct buffer *to);
