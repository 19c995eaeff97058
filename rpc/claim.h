/*
 * The memory for documents of peers while they arrive, of the whole broker.
 *
 * What is larger than a peer may hold without asking is received only when its reader has claimed
 * memory for it; until then the reader does not read, and the peer blocks. Each kind of peer has a
 * pool of its own, so that sessions never wait for servers, nor servers for sessions. What parsing
 * needs comes on top, once, because one document is parsed at a time (rpc/background.h).
 *
 * Nobody holds a pool for long while others wait: a document that is not complete a short time after
 * its claim was granted is revoked then, which ends the frame or the line. Of those that wait, the
 * smallest and the oldest take turns, and one that was revoked before comes after all others.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

enum {
        CLAIM_MIN = 128 * 1024, /* a longer frame or line is received and parsed by itself */

        CLAIM_PARTS_MAX = 16 * 1024 * 1024,
        CLAIM_FRAMES_MAX = 36 * 1024 * 1024,
        CLAIM_LINES_MAX = 128 * 1024 * 1024,

        CLAIM_PARTS_MS = 250, /* from the grant, when others wait */
        CLAIM_FRAMES_MS = 500,
        CLAIM_LINES_MS = 1000,
};

enum claim_pool {
        CLAIM_PARTS,  /* what has arrived of a session's frame up to CLAIM_MIN */
        CLAIM_FRAMES, /* a longer frame of a session */
        CLAIM_LINES,  /* a line above CLAIM_MIN of a server */
        CLAIM_POOLS,
};

struct claim_owner {
        struct event_base *base;
        void (*granted)(void *data); /* from claim_drop() of another, or from the event loop */
        void (*revoked)(void *data); /* the claim is dropped already */
        void *data;
};

/* All zero before the first use. Only claim.c writes the members. */
struct claim {
        TAILQ_ENTRY(claim) link; /* among those that wait, or that are granted */
        enum claim_pool pool;
        size_t bytes;   /* 0: none */
        uint64_t since; /* it was granted */
        bool waits, is_complete, was_revoked;
        struct claim_owner owner;
};

/* Returns whether the bytes may be used now; else granted() follows. bytes: at most the pool's. There is
 * no claim before. */
bool claim_ask(struct claim *claim, enum claim_pool pool, size_t bytes,
               const struct claim_owner *owner);
/* The document has arrived: the claim is not revoked any more. Nothing happens if there is none. */
void claim_complete(struct claim *claim);
/* Gives the bytes back, or stops waiting. Nothing happens if there is no claim. */
void claim_drop(struct claim *claim);

static inline bool claim_is_granted(const struct claim *claim)
{
        return claim->bytes > 0 && !claim->waits;
}
