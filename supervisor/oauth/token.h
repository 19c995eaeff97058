/* Requests to the token endpoint and the revocation endpoint (RFC 6749, RFC 7009, RFC 8707). */
#pragma once

#include "base/error.h"
#include "supervisor/oauth/store.h"

/* Exchanges a code. The record names endpoint, client and resource; its tokens and times are filled
 * in. */
int oauth_token_exchange(struct oauth_record *record, const char *code, const char *verifier,
                         const char *redirect_uri, struct error *err);

/* Requests a token for the client itself. As oauth_token_exchange(). */
int oauth_token_for_client(struct oauth_record *record, struct error *err);

/* Refreshes the access token. -EKEYREJECTED: the server does not take the refresh token any more. */
int oauth_token_refresh(struct oauth_record *record, struct error *err);

/* Revokes the tokens. Returns 0 too if the server offers no revocation. */
int oauth_token_revoke(const struct oauth_record *record, struct error *err);
