/*
 * Segments whose servers have ended: repaired, finished and signed.
 *
 * A chain whose last record is not `end` was left by a server that was killed: a last line without its newline is cut, calls
 * without an answer get one ("in doubt"), and the chain ends. A file that its heads or its own hashes contradict stays as it is.
 */
#pragma once

#include "supervisor/journal/key.h"
#include "supervisor/journal/segments.h"

struct recover {
        int directory;
        struct journal_key *key;
        /* A call in doubt, as JSON without a newline. */
        void (*doubt)(void *data, const char *call, size_t n);
        void *data;
};

/* segments_lock() must be held. Failures of one file are printed on standard error. */
void recover_all(const struct recover *how, const struct segments *segments);

/* Calls without an answer, gathered from the records of a chain. */
struct recover_pending {
        struct recover_call {
                uint64_t n;
                char *call; /* owned: the JSON of JOURNAL_DOUBT */
        } * list;
        size_t n, room;
};
struct chain_record;
/* Returns 0 or -ENOMEM. Above RECOVER_PENDING_MAX further calls are left out. */
enum { RECOVER_PENDING_MAX = 16384 };
int recover_note(struct recover_pending *pending, const struct chain_record *record);
void recover_pending_done(struct recover_pending *pending);
