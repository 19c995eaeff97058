/*
 * The uncompressed bytes of a blob: plain, gzip or zstd, as its first bytes tell. Bounded by a budget. One block is in memory
 * at a time.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "rootfs/oci/budget.h"

/* Part of a file that can be read at any place. */
struct blob {
        int fd; /* borrowed */
        uint64_t offset, size;
};

struct stream;

/* The stream borrows the budget. */
int stream_open(const struct blob *blob, struct budget *budget, struct stream **ret,
                struct error *err);
struct stream *stream_close(struct stream *stream);
static inline void cleanup_stream(struct stream **stream)
{
        stream_close(*stream);
}
#define _cleanup_stream_ _cleanup_(cleanup_stream)

/* The next block, valid until the next call. Returns its length, 0 at the end, or negative errno; the first error stays. */
ssize_t stream_next(struct stream *stream, const void **ret, struct error *err);
