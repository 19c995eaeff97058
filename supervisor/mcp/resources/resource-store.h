/*
 * Resources that clients can read after a call: outputs and displays of which its result shows a part or none,
 * which are kept here, and the names of files that it made, which are kept in the session. Bytes and numbers are
 * limited: new entries replace the oldest, and the names of dropped outputs are kept for a while.
 */
#pragma once

#include <stdint.h>

#include "rpc/memory-account.h"
#include "supervisor/mcp/resources/resource-uri.h"
#include "supervisor/session/cell/output.h"

enum {
        STORE_BYTES_MAX = 64 * 1024 * 1024, /* of memory; all stores share ACCOUNTS_CLIENTS_MAX */
        STORE_LIVE_MAX = 256,               /* entries with their bytes */
        STORE_DROPPED_MAX = 1024,           /* outputs of which only the name is kept */
        STORE_FILES_MAX = 1000,             /* names of files */
};

struct resource {
        struct resource *older;
        struct resource_uri uri;
        uint64_t serial; /* in the order in which they were added, from 1 on */
        struct buffer head,
                tail; /* of an output or display: one text, valid UTF-8, in two pieces */
        bool is_blob; /* the text is base64 */
        bool dropped; /* a dropped output or display: no bytes */
        char mime_type[CELL_MIME_MAX + 1];
        uint64_t file_size; /* of a file: when it was last named */
};

struct resource_store {
        struct resource *newest;
        uint64_t serial; /* of the newest */
        size_t bytes, n_live, n_dropped, n_files;
        struct charge kept; /* for the bytes; has an account once something was kept */
};

void resource_store_done(struct resource_store *store);

/* Moves the bytes out of the capture. Replaces an entry of the same name. Returns 0, or -ENOMEM
 * (nothing was moved). */
int resource_store_keep(struct resource_store *store, const struct resource_uri *uri,
                        struct capture *capture);

/* Keeps a display that is not a content block, in the same way. */
int resource_store_keep_display(struct resource_store *store, const struct resource_uri *uri,
                                struct cell_display *display);

/* Adds the name of a file that a call made or changed. Returns 1 if it is new, 0 if not, or
 * -ENOMEM. */
int resource_store_name_file(struct resource_store *store, const struct resource_uri *uri,
                             const struct cell_file *file);
/* Removes the files of a session. Returns whether there were any. */
bool resource_store_forget_files(struct resource_store *store, const char *session);

/* NULL: unknown, or forgotten. */
const struct resource *resource_store_find(const struct resource_store *store,
                                           const struct resource_uri *uri);

/* The newest file or output that has its bytes and a serial below this one; NULL: none. */
const struct resource *resource_store_before(const struct resource_store *store, uint64_t serial);

/* Of a blob: of its base64. */
static inline size_t resource_size(const struct resource *resource)
{
        return resource->uri.kind == RESOURCE_FILE ? (size_t)resource->file_size
                                                   : resource->head.length + resource->tail.length;
}

/*
 * Appends at most `most` bytes of the text, whole characters, from the byte `offset` on (moved
 * forward to the start of a character). *end: the offset of the end. Returns 0, -EMSGSIZE or
 * -ENOMEM.
 */
int resource_append_text(const struct resource *resource, uint64_t offset, size_t most,
                         struct buffer *to, uint64_t *end);
