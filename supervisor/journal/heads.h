/*
 * Heads: N.heads has a line for each time at which the records of N.jsonl were signed.
 *
 *     {"segment":3,"n":12,"head":"SHA-256 of line n","t":"…","key":"public key","sig":"base64"}
 *
 * The signature is of the bytes of the line before ,"sig". "old" names the key before, if this one is another.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "supervisor/journal/key.h"
#include "supervisor/journal/lines.h"

struct journal_head {
        uint32_t segment;
        uint64_t n; /* 0: a key only */
        char head[JOURNAL_HASH_SIZE], key[JOURNAL_HASH_SIZE],
                old[JOURNAL_HASH_SIZE]; /* old: or "" */
};

/* Opens N.heads for appending, and makes it if it does not exist. A line that was not written whole is cut. Its last head is
 * *last; n 0 and an empty key if it has none. */
int heads_open(int directory, uint32_t segment, struct journal_head *last, struct error *err);
/* Signs and appends; key: filled in. */
int heads_append(int fd, struct journal_key *key, struct journal_head *head, struct error *err);
/* The next head, if its signature is valid: 1; 0 at the end; -EBADMSG. */
int heads_next(struct journal_lines *lines, struct journal_head *ret, struct error *err);
