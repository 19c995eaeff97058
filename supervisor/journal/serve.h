/*
 * The journal of one server: opens segments for its broker (rpc/journal-messages.h), checks the chain that the broker writes, and
 * signs its heads, each second while there is something new and at the end.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"

struct journal_key;

struct journal_limits {
        const char *path; /* of the directory, for errors */
        uint64_t max;     /* bytes of the directory */
        uint64_t keep_s;  /* a segment is removed whose last record is older than this */
};

/* All are borrowed. Returns 0 when the broker has ended and the last head is written. */
int journal_serve(int socket, int directory, struct journal_key *key,
                  const struct journal_limits *limits, struct error *err);
