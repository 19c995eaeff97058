/*
 * One HTTP request, by libcurl. No redirect is followed, no proxy or cookie is used,
 * ~/.netrc is not read, and no compressed answer is accepted. Each address is checked when it is connected
 * to, so that a name that resolves differently the second time gains nothing.
 */
#pragma once

#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"
#include "supervisor/oauth/url.h"

enum {
        OAUTH_BODY_MAX = 256 * 1024,
        OAUTH_HEADERS_MAX = 64 * 1024,
        OAUTH_CHALLENGE_MAX = 8 * 1024,
        OAUTH_CONNECT_MS = 8 * 1000,
        OAUTH_REQUEST_MS = 12 * 1000,
};

struct oauth_request {
        const char *url;
        const struct oauth_reach *reach;
        const char *what; /* begins messages: "the token endpoint" */
        const char *body; /* NULL: GET */
        size_t length;
        const char *type;       /* Content-Type of the body */
        bool headers_only;      /* the answer's body is not read */
        const char *headers[8]; /* further ones, up to a NULL */
};

struct oauth_response {
        long status;
        struct buffer body;
        struct buffer challenge; /* the values of WWW-Authenticate, joined by ", " */
};

/* Returns 0 with any status, or negative errno: no answer, a refused URL or address, an answer that
 * is too large. */
int oauth_fetch(const struct oauth_request *request, struct oauth_response *ret, struct error *err);
void oauth_response_done(struct oauth_response *response);

#define _cleanup_response_ _cleanup_(oauth_response_done)
