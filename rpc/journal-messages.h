/*
 * The messages between the broker and cloister-journal, over a SOCK_SEQPACKET pair. Both are of fixed size.
 *
 * The broker writes records to the segment that it was given, and never waits for an answer before it writes the next one.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"

enum {
        JOURNAL_RECORD_MAX = 16 * 1024, /* bytes of a record, its newline included */
        JOURNAL_HASH_SIZE = 2 * 32 + 1, /* SHA-256 as text, with a NUL */
        JOURNAL_DOUBTS_MAX = 256,       /* calls in doubt that one start reports */
        JOURNAL_DOUBT_TEXT = 480,
};

/* `prev` of the first record of a chain. */
#define JOURNAL_HASH_NONE "0000000000000000000000000000000000000000000000000000000000000000"

enum journal_verb {
        JOURNAL_OPEN =
                1, /* the first request; with a descriptor: of `segment`, which the broker has already */
        JOURNAL_NOTE, /* there are records that no head has signed: the first one since JOURNAL_SIGNED */
        JOURNAL_SYNC,   /* fdatasync(2) of what was written: JOURNAL_SYNCED follows */
        JOURNAL_CLOSED, /* `segment` gets no more records: the chain continues in the newest one */
        JOURNAL_VERB_MAX,
};

struct journal_request {
        uint32_t verb;
        uint32_t serial;  /* of JOURNAL_SYNC */
        uint32_t segment; /* its number */
};

enum journal_event_kind {
        JOURNAL_SEGMENT =
                1, /* records go to `segment` from now on; has its descriptor, unless the broker has sent it */
        JOURNAL_SIGNED, /* a head covers the records up to `n` */
        JOURNAL_SYNCED, /* `error` is set if that failed */
        JOURNAL_DOUBT,  /* before JOURNAL_SEGMENT: a call of a server that has ended, as JSON */
        JOURNAL_FAILED, /* the journal cannot be used: the process ends */
        JOURNAL_EVENT_MAX,
};

struct journal_event {
        uint32_t kind;
        uint32_t serial;
        uint32_t segment;
        uint32_t after; /* the segment before in the chain; 0: none */
        uint64_t n;
        struct error error;
        char call[JOURNAL_DOUBT_TEXT]; /* JSON: session, principal, t, cell, server, tool */
};
