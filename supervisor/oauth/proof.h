/* How a client proves itself: by a private key (private_key_jwt: RFC 7523, RFC 7521), and that a code is its own (PKCE: RFC
 * 7636, by S256). */
#pragma once

#include "base/buffer.h"
#include "supervisor/oauth/metadata.h"

/* Reads a private key in PEM: P-256, RSA of at least 2048 bits, or Ed25519, without a passphrase. ret: the
 * same as base64 of DER. */
int oauth_key_read(const char *pem, size_t n, char ret[OAUTH_KEY_MAX + 1], struct error *err);

/* Appends a signed statement of the client that is good for five minutes, once, at one authorization
 * server. */
int oauth_assertion_append(const struct oauth_client *client, const char *issuer, struct buffer *to,
                           struct error *err);

enum { PKCE_LENGTH = 43 }; /* 32 bytes in base64url */

/* 256 random bits, for verifiers and other unguessable texts. */
int pkce_random(char ret[PKCE_LENGTH + 1], struct error *err);
/* The challenge of a verifier. */
int pkce_challenge(const char *verifier, char ret[PKCE_LENGTH + 1], struct error *err);
