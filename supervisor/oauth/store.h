/*
 * The files with tokens: one for each server, by a hash of its name and URL, so that a name cannot
 * lead out of the directory and a token never goes to another URL than the one it was made for.
 *
 * The directory ($XDG_STATE_HOME/cloister/oauth) has mode 0700, the files have 0600; anything else
 * is refused. A file is written under another name and renamed; what a writer that was killed left is
 * replaced by the next one. A process that changes a file holds its lock.
 */
#pragma once

#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "supervisor/oauth/record.h"

enum {
        OAUTH_KEY_LENGTH = 40,
        OAUTH_LOCK_MS = 12 * 1000, /* with a request, less than cloister-access waits (30 s) */
};

struct oauth_store {
        int directory;
        char path[512];
        char key[OAUTH_KEY_LENGTH + 1];
        int lock; /* -1: not held */
};

/* Opens the directory and chooses the file of a server. make: creates the directory if there is none,
 * else -ENOENT. */
int oauth_store_open(struct oauth_store *store, const char *name, const char *url, bool make,
                     struct error *err);
void oauth_store_close(struct oauth_store *store);

/* The error of a directory that cannot be made or written to. */
int oauth_store_cannot_make(const char *path, int code, struct error *err);

/* Waits for the lock, at most OAUTH_LOCK_MS. */
int oauth_store_lock(struct oauth_store *store, struct error *err);

/* -ENOENT without a message: there is no file. -EPERM, -EBADMSG: it is not one of ours. */
int oauth_store_read(const struct oauth_store *store, const char *name, const char *url,
                     struct oauth_record *ret, struct error *err);
int oauth_store_write(const struct oauth_store *store, const struct oauth_record *record,
                      struct error *err);
/* With what a writer has left. Returns 0 too if there was none. */
int oauth_store_remove(const struct oauth_store *store, struct error *err);

static inline void cleanup_oauth_store(struct oauth_store *store)
{
        oauth_store_close(store);
}
#define _cleanup_store_ _cleanup_(cleanup_oauth_store)
