/*
 * Who may ask, and from where.
 *
 * A web page must not reach the server: its requests have an Origin, which has to be allowed, and
 * after DNS rebinding the Host is the page's, which has to be ours. A bearer token names the
 * principal. Without tokens each user of a unix socket is a principal, and all other clients are one.
 *
 * The tokens are lines: NAME TOKEN [profile=NAME] [calls=N] [sessions=N] [cells_per_minute=N] [memory=SIZE]
 * [cpu=CORES], or NAME TOKEN role=metrics|view; # begins a comment. They can
 * be replaced; a principal lives as long as the server, because calls that are ending refer to it.
 *
 * A token with a role is not a principal: it opens /metrics or the live view (admin.h), and nothing else.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/limits.h"
#include "rpc/monitor-messages.h"
#include "supervisor/mcp/state.h"

enum {
        ACCESS_TOKENS_MAX = 256,
        ACCESS_TOKEN_MIN = 16, /* characters of a token */
        ACCESS_TOKEN_MAX = 256,
        ACCESS_CALLS = 64, /* calls of a principal at once, unless the line sets another number */
        ACCESS_FILE_MAX = 64 * 1024,
        ACCESS_NAMES_EVER = 1024, /* of tokens that were replaced, and of those in use */
        ACCESS_USERS_MAX = 64,
};

enum access_role {
        ACCESS_ROLE_NONE, /* a client */
        ACCESS_ROLE_METRICS,
        ACCESS_ROLE_VIEW, /* of all principals; and the metrics */
};

enum access_change {
        ACCESS_REMOVED, /* it has no token any more */
        ACCESS_TOKEN,   /* it has another token, and maybe another profile */
        ACCESS_PROFILE, /* it has another profile */
};

struct access_token {
        struct mcp_principal principal;
        char token[ACCESS_TOKEN_MAX + 1];
        char profile[SESSION_NAME_MAX + 1]; /* "": the default */
        uint32_t memory_mib, cpu_milli;     /* of all its sessions; 0: an even share */
        enum access_role role;
        bool removed;
};

struct access_user {
        struct mcp_principal principal;
        uint32_t uid;
};

struct access {
        const char *const *hosts, *const *origins; /* borrowed: besides those of the loopback */
        size_t n_hosts, n_origins;
        /* The limits of a session with this profile (NULL: the default), and its data; or NULL. */
        const struct limits *(*limits_of)(const void *data, const char *profile);
        const void *data;
        bool needs_token;
        struct access_token *tokens[ACCESS_NAMES_EVER]; /* owned */
        size_t n_tokens;
        size_t role_changes; /* of tokens with a role: how often one was replaced or removed */
        struct access_user *users[ACCESS_USERS_MAX]; /* owned */
        size_t n_users;
        struct mcp_principal everybody; /* without tokens */
};

/* profile: borrowed; of those whose line names none, or NULL. */
void access_init(struct access *access, const char *profile);
void access_done(struct access *access);

/* Adds the tokens of a file's text. The error names the line, never the token. */
int access_read_tokens(struct access *access, const char *text, size_t n, struct error *err);

/* Whether the text could replace the tokens. */
int access_check_tokens(const struct access *access, const char *text, size_t n, struct error *err);
/* Replaces the tokens by those of a text, which may have none: then no request is accepted. A name that comes back is another
 * principal. Calls changed() for each principal that has changed. On failure nothing changes. */
int access_replace_tokens(struct access *access, const char *text, size_t n,
                          void (*changed)(void *data, struct mcp_principal *principal,
                                          enum access_change change),
                          void *data, struct error *err);

/* How many principals have access. Without tokens all clients of TCP are one, and one user of a unix socket is expected. */
size_t access_principals(const struct access *access);

/* The principal of the sessions with this key; data: struct access. */
void access_sums(const void *data, const char *key, struct monitor_principal *ret);

/* The user of a unix socket: "uid-N". NULL: there are too many. */
struct mcp_principal *access_user(struct access *access, uint32_t uid);

/* The value of Host: a name or an address, with or without a port. */
bool access_host_allowed(const struct access *access, const char *host);
/* The value of Origin. */
bool access_origin_allowed(const struct access *access, const char *origin);

/* authorization: the header's value, or NULL. user: of the connection, or NULL. Returns NULL if it is
 * refused. Takes the same time for every wrong token. */
struct mcp_principal *access_principal(struct access *access, const char *authorization,
                                       struct mcp_principal *user);

/* The token of the principal with this key, or NULL. */
const char *access_token_of(const struct access *access, const char *key);

/* The role of the token in the header's value, or ACCESS_ROLE_NONE. */
enum access_role access_role(const struct access *access, const char *authorization);
/* Whether the header's value has any token that is accepted now, with or without a role. */
bool access_is_known(const struct access *access, const char *authorization);
