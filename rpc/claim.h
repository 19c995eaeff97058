/*
 * The memory for large documents of peers, of the whole broker.
 *
 * A document above CLAIM_MIN bytes is received only when its reader has claimed memory for it; until
 * then the reader does not read, and the peer blocks. Claims are granted in their order, so that
 * documents of many peers together take at most CLAIMS_MAX bytes. What parsing needs comes on top,
 * once, because one document is parsed at a time (rpc/background.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

enum {
        CLAIM_MIN = 128 * 1024,
        CLAIMS_MAX = 128 * 1024 * 1024,
};

struct claim {
        TAILQ_ENTRY(claim) link; /* while waiting */
        size_t bytes;            /* 0: none */
        bool waits;
        void (*granted)(void *data);
        void *data;
};

/* Returns whether the bytes may be used now; else granted() follows, from claim_drop() of another.
 * bytes: at most CLAIMS_MAX. The claim is all zero before. */
bool claim_ask(struct claim *claim, size_t bytes, void (*granted)(void *data), void *data);
/* Gives the bytes back, or stops waiting. Nothing happens if there is no claim. */
void claim_drop(struct claim *claim);

static inline bool claim_is_granted(const struct claim *claim)
{
        return claim->bytes > 0 && !claim->waits;
}
