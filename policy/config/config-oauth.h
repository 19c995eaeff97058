/* The key "oauth" of a server that is reached by HTTP: what `cloister login` needs to know beforehand
 * (docs/oauth.md). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct config_oauth {
        bool is_set;
        char *client_id;           /* registered by hand, or NULL */
        char *client_secret;       /* "${NAME}" until it is expanded; NULL: none */
        char *client_secret_file;  /* may begin with ~ until it is expanded */
        char *private_key_file;    /* in PEM, in place of a secret; the same */
        char *key_id;              /* the key's name at the authorization server, or NULL */
        bool client_credentials;   /* the client logs in for itself, without a person */
        char *client_metadata_url; /* a document that describes the client (CIMD), or NULL */
        char *issuer;              /* the only authorization server to use, or NULL */
        char *scopes;           /* to request, separated by spaces; NULL: what the server names */
        uint16_t redirect_port; /* 0: any */
        bool private;           /* servers of private networks may be contacted */
};

void config_oauth_done(struct config_oauth *oauth);
/* Returns 0 or -ENOMEM. */
int config_oauth_copy(const struct config_oauth *from, struct config_oauth *ret);

/* Expands ${VAR} and a leading ~ where the secret is. Called for a login only, because nothing else
 * needs the secret. As config_server_expand(). */
int config_oauth_expand(struct config_oauth *oauth, const char *(*lookup)(const char *name),
                        struct error *err);
