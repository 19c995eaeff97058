/*
 * Who may ask, and from where.
 *
 * A web page must not reach the server: its requests have an Origin, which has to be allowed, and
 * after DNS rebinding the Host is the page's, which has to be ours. A bearer token names the
 * principal. Without tokens everybody who can open the socket is the same principal.
 *
 * The tokens are lines: NAME TOKEN [profile=NAME] [calls=N] [sessions=N]; # begins a comment.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "supervisor/mcp/principal.h"

enum {
        ACCESS_TOKENS_MAX = 64,
        ACCESS_TOKEN_MIN = 16, /* characters of a token */
        ACCESS_TOKEN_MAX = 256,
        ACCESS_NAMES_MAX = 16, /* of allowed hosts, and of allowed origins */
        ACCESS_CALLS = 64,     /* calls of a principal at once, unless the line says else */
        ACCESS_FILE_MAX = 64 * 1024,
};

struct access_token {
        struct mcp_principal principal;
        char token[ACCESS_TOKEN_MAX + 1];
        char profile[SESSION_NAME_MAX + 1];
};

struct access {
        const char *hosts[ACCESS_NAMES_MAX];   /* borrowed: besides those of the loopback */
        const char *origins[ACCESS_NAMES_MAX]; /* borrowed; the same */
        size_t n_hosts, n_origins;
        struct access_token *tokens; /* owned */
        size_t n_tokens;
        struct mcp_principal everybody; /* without tokens */
};

/* profile: borrowed; of those whose line names none, or NULL. */
void access_init(struct access *access, const char *profile);
void access_done(struct access *access);

/* Adds the tokens of a file's text. The error names the line, never the token. */
int access_read_tokens(struct access *access, const char *text, size_t n, struct error *err);

/* The value of Host: a name or an address, with or without a port. */
bool access_host_allowed(const struct access *access, const char *host);
/* The value of Origin. */
bool access_origin_allowed(const struct access *access, const char *origin);

/* authorization: the header's value, or NULL. Returns NULL if it is refused. Takes the same time for
 * every wrong token. */
struct mcp_principal *access_principal(struct access *access, const char *authorization);
