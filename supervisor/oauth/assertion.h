/* How a client proves itself with a private key (private_key_jwt: RFC 7523, RFC 7521). */
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
