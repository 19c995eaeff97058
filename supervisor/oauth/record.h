/* A login, and its JSON text. */
#pragma once

#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "supervisor/oauth/metadata.h"

enum { OAUTH_NAME_MAX = 256 /* bytes of a server's name */ };

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

/* A record as JSON, and back. */
int oauth_record_append(const struct oauth_record *record, struct buffer *to);
int oauth_record_parse(const char *data, size_t n, struct oauth_record *ret, struct error *err);
