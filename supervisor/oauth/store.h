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
#include "supervisor/oauth/metadata.h"

enum {
        OAUTH_NAME_MAX = 256, /* bytes of a server's name */
        OAUTH_KEY_LENGTH = 40,
        OAUTH_LOCK_MS = 12 * 1000, /* with a request, less than cloister-access waits (30 s) */
};

/* A login. */
struct oauth_record {
        char name[OAUTH_NAME_MAX + 1], url[OAUTH_URL_MAX + 1];
        char resource[OAUTH_URL_MAX + 1]; /* as the server's metadata names it */
        char issuer[OAUTH_URL_MAX + 1];
        char token_endpoint[OAUTH_URL_MAX + 1];
        char revocation_endpoint[OAUTH_URL_MAX + 1]; /* "": none */
        char scope[CHALLENGE_SCOPE_MAX + 1];         /* requested so far */
        struct oauth_client client;
        bool registered;  /* client: by dynamic registration, so that it may be used again */
        bool credentials; /* the client logs in for itself: a token is renewed by the same request */
        bool private;     /* the reach of the config at the login */
        struct oauth_tokens tokens; /* access "": logged out by the server */
        int64_t obtained, expires;  /* seconds since 1970; expires 0: not known */
};

/* A login as JSON, and back. */
int oauth_record_append(const struct oauth_record *record, struct buffer *to);
int oauth_record_parse(const char *data, size_t n, struct oauth_record *ret, struct error *err);

struct oauth_store {
        const char *name, *url; /* borrowed: of the server */
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
int oauth_store_read(const struct oauth_store *store, struct oauth_record *ret, struct error *err);
int oauth_store_write(const struct oauth_store *store, const struct oauth_record *record,
                      struct error *err);
/* With what a writer has left. Returns 0 too if there was none. */
int oauth_store_remove(const struct oauth_store *store, struct error *err);

#define _cleanup_store_ _cleanup_(oauth_store_close)
