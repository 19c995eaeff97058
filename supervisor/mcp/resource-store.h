/*
 * What is kept for clients to read after a call: outputs that were cut in its result. Bounded in
 * bytes and in number; the oldest make room for new ones, and for a while it is remembered that
 * they were there.
 */
#pragma once

#include <stdint.h>

#include "supervisor/mcp/resource-uri.h"
#include "supervisor/session/output.h"

enum {
        STORE_BYTES_MAX = 64 * 1024 * 1024, /* of memory, for all */
        STORE_LIVE_MAX = 256,               /* entries with their bytes */
        STORE_GONE_MAX = 1024,              /* entries remembered without them */
};

struct resource {
        struct resource *older;
        struct resource_uri uri;
        uint64_t serial;          /* in the order of keeping, from 1 on */
        struct buffer head, tail; /* one text, valid UTF-8, in two pieces */
        bool gone;                /* made room for newer ones: no bytes */
};

struct resource_store {
        struct resource *newest;
        uint64_t serial; /* of the newest */
        size_t bytes, n_live, n_gone;
};

void resource_store_done(struct resource_store *store);

/* Takes what the capture holds, which is empty afterwards. An earlier entry of the name is replaced
 * by it. Returns 0 or -ENOMEM (then nothing is taken). */
int resource_store_keep(struct resource_store *store, const struct resource_uri *uri,
                        struct capture *capture);

/* NULL: there was never one, or that is forgotten. */
const struct resource *resource_store_find(const struct resource_store *store,
                                           const struct resource_uri *uri);

/* The newest one with its bytes and a serial below this; NULL at the end. */
const struct resource *resource_store_before(const struct resource_store *store, uint64_t serial);

static inline size_t resource_size(const struct resource *resource)
{
        return resource->head.length + resource->tail.length;
}

/*
 * Appends the part of the text that begins at `offset` (a byte of it; moved on to the begin of a
 * character) and has at most `most` bytes, whole characters. *end is where it ends. Returns 0,
 * -EMSGSIZE or -ENOMEM.
 */
int resource_append_text(const struct resource *resource, uint64_t offset, size_t most,
                         struct buffer *to, uint64_t *end);
