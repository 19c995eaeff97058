/*
 * Where the blobs of an image are: a directory (an OCI layout), or a tar archive of one, or of a docker-archive. An archive that
 * is compressed is unpacked first. The list of an archive's members is bounded.
 */
#pragma once

#include "base/cleanup.h"
#include "base/error.h"
#include "rootfs/oci/budget.h"
#include "rootfs/oci/digest.h"
#include "rootfs/oci/stream.h"

struct source;

/* spool: an empty directory, borrowed, for an archive that is compressed. */
int source_open(const char *path, int spool, struct budget *budget, struct source **ret,
                struct error *err);
struct source *source_close(struct source *source);
DEFINE_CLEANUP(struct source *, source_close)
#define _cleanup_source_ _cleanup_(cleanup_source_close)

/* Whether there is a file of this name ("index.json"). */
bool source_has(const struct source *source, const char *name);

/* Opens a file. A path in a directory may have no link. close() ret->fd with source_release(). */
int source_find(const struct source *source, const char *name, struct blob *ret, struct error *err);
void source_release(const struct source *source, struct blob *blob);

/* Reads a whole file of at most BUDGET_JSON_MAX bytes. *ret is owned by the caller. expected (may be NULL) is its digest. */
int source_read(const struct source *source, const char *name, struct hash *hash,
                const struct digest *expected, char **ret, size_t *n, struct error *err);

/* Reads a blob once, and checks that it has this digest. */
int source_check(const struct blob *blob, struct hash *hash, const struct digest *expected,
                 struct error *err);
