/*
 * Records as a chain: each has the next number, and the SHA-256 of the previous line.
 *
 * Records come from the broker, or from a file that anybody may have changed: nothing in them is trusted.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

#include "base/error.h"
#include "rpc/journal-messages.h"

/* The last record that was checked; n 0: none. */
struct chain {
        uint64_t n;
        char head[JOURNAL_HASH_SIZE];
};

struct chain_record {
        yyjson_doc *doc; /* owned: chain_record_done() */
        yyjson_val *root;
        const char *kind;
        uint64_t n;
        uint64_t of;      /* of an answer: number of its call */
        uint32_t segment; /* of start and next */
        uint32_t after;   /* of start: the segment before; 0: none */
};

/* Starts at the beginning of a chain. */
void chain_begin(struct chain *chain);
/* Starts before the record of this line, which says itself what is before it: the segment before is not read. */
void chain_begin_at(struct chain *chain, const char *line, size_t n);
/* Checks one line, its newline included, and makes it the last record. *ret is valid if 0 is returned. -EBADMSG: it is not
 * the next record. */
int chain_next(struct chain *chain, const char *line, size_t n, struct chain_record *ret,
               struct error *err);
void chain_record_done(struct chain_record *record);
