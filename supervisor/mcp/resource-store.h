/*
 * What clients can read after a call: outputs that were cut in its result, kept here, and the files
 * that it made, which lie in the session and are only named here. Bounded in bytes and in number;
 * the oldest make room for new ones, and for a while it is remembered that outputs were there.
 */
#pragma once

#include <stdint.h>

#include "supervisor/mcp/resource-uri.h"
#include "supervisor/session/output.h"

enum {
        STORE_BYTES_MAX = 64 * 1024 * 1024, /* of memory, for all */
        STORE_LIVE_MAX = 256,               /* entries with their bytes */
        STORE_GONE_MAX = 1024,              /* entries remembered without them */
        STORE_FILES_MAX = 1000,             /* files named */
};

struct resource {
        struct resource *older;
        struct resource_uri uri;
        uint64_t serial;          /* in the order of keeping, from 1 on */
        struct buffer head, tail; /* of an output: one text, valid UTF-8, in two pieces */
        bool gone;                /* an output that made room for newer ones: no bytes */
        char mime_type[CELL_MIME_MAX + 1];
        uint64_t file_size; /* of a file: when it was last named */
};

struct resource_store {
        struct resource *newest;
        uint64_t serial; /* of the newest */
        size_t bytes, n_live, n_gone, n_files;
};

void resource_store_done(struct resource_store *store);

/* Takes what the capture holds, which is empty afterwards. An earlier entry of the name is replaced
 * by it. Returns 0 or -ENOMEM (then nothing is taken). */
int resource_store_keep(struct resource_store *store, const struct resource_uri *uri,
                        struct capture *capture);

/* Names a file that a call made or changed. Returns 0 (it was named already), 1 (it is new) or
 * -ENOMEM. */
int resource_store_name_file(struct resource_store *store, const struct resource_uri *uri,
                             const struct cell_file *file);
/* The session's files are gone. Returns whether there were any. */
bool resource_store_forget_files(struct resource_store *store, const char *session);

/* NULL: there was never one, or that is forgotten. */
const struct resource *resource_store_find(const struct resource_store *store,
                                           const struct resource_uri *uri);

/* The newest file or output with its bytes, with a serial below this; NULL at the end. */
const struct resource *resource_store_before(const struct resource_store *store, uint64_t serial);

static inline size_t resource_size(const struct resource *resource)
{
        return resource->uri.kind == RESOURCE_FILE ? (size_t)resource->file_size
                                                   : resource->head.length + resource->tail.length;
}

/*
 * Appends the part of the text that begins at `offset` (a byte of it; moved on to the begin of a
 * character) and has at most `most` bytes, whole characters. *end is where it ends. Returns 0,
 * -EMSGSIZE or -ENOMEM.
 */
int resource_append_text(const struct resource *resource, uint64_t offset, size_t most,
                         struct buffer *to, uint64_t *end);
