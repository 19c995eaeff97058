/*
 * The documents of authorization and resource servers, as structs of fixed size. All of them are
 * hostile bytes. A missing member is "" or false. A member that has the wrong type, is too long or
 * contains control characters is an error where it is needed, and missing elsewhere.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "rpc/challenge.h"
#include "supervisor/oauth/url.h"

enum {
        OAUTH_SERVERS_MAX = 8,
        OAUTH_ID_MAX = 2048,     /* client_id: it may be a URL */
        OAUTH_SECRET_MAX = 2048, /* client_secret */
        OAUTH_KEY_MAX = 4096,    /* a private key as text */
        OAUTH_KEY_ID_MAX = 2048,
        OAUTH_ACCESS_MAX = 16 * 1024,
        OAUTH_REFRESH_MAX = 8 * 1024,
        OAUTH_VALUES_MAX = 10000, /* of a document */
};

/* How a client proves itself to the token endpoint. */
enum oauth_method {
        OAUTH_NONE,
        OAUTH_BASIC,
        OAUTH_POST,
        OAUTH_PRIVATE_KEY, /* only with a key of the config */
        OAUTH_METHOD_MAX
};
const char *oauth_method_name(enum oauth_method method);
int oauth_method_from_name(const char *name); /* negative: another one */

/* Protected resource metadata (RFC 9728). */
struct oauth_resource {
        char resource[OAUTH_URL_MAX + 1];
        char servers[OAUTH_SERVERS_MAX][OAUTH_URL_MAX + 1]; /* issuers; those beyond are ignored */
        size_t n_servers;
        char scopes[CHALLENGE_SCOPE_MAX + 1];
};

/* Authorization server metadata (RFC 8414, OpenID Connect Discovery). */
struct oauth_server {
        char issuer[OAUTH_URL_MAX + 1];
        char authorization_endpoint[OAUTH_URL_MAX + 1]; /* "": no grant needs one */
        char token_endpoint[OAUTH_URL_MAX + 1];
        char registration_endpoint[OAUTH_URL_MAX + 1]; /* "": none, and so below */
        char revocation_endpoint[OAUTH_URL_MAX + 1];
        bool s256;            /* code_challenge_methods_supported has it */
        bool names_issuer;    /* authorization_response_iss_parameter_supported */
        bool takes_documents; /* client_id_metadata_document_supported */
        bool offline_access;  /* scopes_supported has it */
        unsigned int methods; /* bits 1 << enum oauth_method; never 0 */
};

/* A client at an authorization server: registered, or from the config. */
struct oauth_client {
        char id[OAUTH_ID_MAX + 1];
        char secret[OAUTH_SECRET_MAX + 1];
        char key[OAUTH_KEY_MAX + 1]; /* oauth_key_read() */
        char key_id[OAUTH_KEY_ID_MAX + 1];
        enum oauth_method method;
        uint16_t port; /* of the redirect URI that it was registered with; 0: any */
};

struct oauth_tokens {
        char access[OAUTH_ACCESS_MAX + 1];
        char refresh[OAUTH_REFRESH_MAX + 1]; /* "": none */
        char scope[CHALLENGE_SCOPE_MAX + 1]; /* granted; "": as requested */
        int64_t seconds;                     /* of the access token's life; 0: not known */
};

/* The parameters of the redirect, decoded. */
struct oauth_redirect {
        char code[OAUTH_REFRESH_MAX + 1];
        char state[129];
        char issuer[OAUTH_URL_MAX + 1];
        char error[65];
        bool has_issuer;
};

/* Returns 0, -EBADMSG with a message, or -ENOMEM. */
int oauth_parse_resource(const char *data, size_t n, struct oauth_resource *ret, struct error *err);
int oauth_parse_server(const char *data, size_t n, struct oauth_server *ret, struct error *err);
/* asked: the method that the registration asked for. */
int oauth_parse_client(const char *data, size_t n, enum oauth_method asked,
                       struct oauth_client *ret, struct error *err);
int oauth_parse_tokens(const char *data, size_t n, struct oauth_tokens *ret, struct error *err);

/* The code of an error response ("invalid_grant"): letters, digits and _ only; "" if it has none. */
void oauth_parse_error(const char *data, size_t n, char ret[65]);

/* The query of a redirect ("code=…&state=…"). A parameter that occurs twice, or that holds control
 * characters, is an error. Returns 0 or -EBADMSG. */
int oauth_parse_redirect(const char *query, size_t n, struct oauth_redirect *ret,
                         struct error *err);
