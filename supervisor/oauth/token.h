/* Requests to the token endpoint and the revocation endpoint (RFC 6749, RFC 7009, RFC 8707). */
#pragma once

#include "base/error.h"
#include "supervisor/oauth/store.h"

/* Exchanges a code. The record names endpoint, client and resource; its tokens and times are filled
 * in. */
int oauth_token_exchange(struct oauth_record *record, const char *code, const char *verifier,
                         const char *redirect_uri, struct error *err);

/* Requests the next access token: with the refresh token, or, of a client that logs in for itself, with its credentials. As
 * oauth_token_exchange(). -EKEYREJECTED: the server does not take them any more. */
int oauth_token_renew(struct oauth_record *record, struct error *err);

/* Revokes the tokens. Returns 0 too if the server offers no revocation. */
int oauth_token_revoke(const struct oauth_record *record, struct error *err);
