/*
 * The header WWW-Authenticate of a server that wants a token (RFC 9110, section 11; RFC 6750;
 * RFC 9728, section 5.1): a list of challenges, of which the one of the scheme Bearer is read.
 */
#pragma once

#include <stddef.h>

enum {
        CHALLENGE_URL_MAX = 2048,
        CHALLENGE_SCOPE_MAX = 2048,
        CHALLENGE_ERROR_MAX = 64,
};

/* Members that the header does not have, or that are too long or hold control characters, are "". */
struct challenge {
        char error[CHALLENGE_ERROR_MAX + 1]; /* "insufficient_scope" */
        char scope[CHALLENGE_SCOPE_MAX + 1]; /* scope tokens, separated by one space */
        char resource_metadata[CHALLENGE_URL_MAX + 1];
};

/* Several headers are joined by ", ". Returns 0, or -ENOENT: there is no Bearer challenge. */
int challenge_parse(const char *text, size_t n, struct challenge *ret);

/* Adds those scopes of a text that the set does not have yet. Separators are spaces. Returns 0,
 * -EINVAL: a character that a scope cannot have (RFC 6749, appendix A.4), or -EMSGSIZE: more than
 * `size` bytes with NUL. A failure leaves the set as it was. */
int scope_add(char *set, size_t size, const char *more);
