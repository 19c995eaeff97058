/* The tokens of requests. */
#pragma once

#include "base/error.h"

/*
 * A token for a request. Reads one JSON object from standard input, and writes one line to standard
 * output:
 *
 *     {"name", "url", "status"?: 401 | 403, "challenge"?: TEXT}
 *     {"token": TOKEN, "seconds"?: N, "renew"?: N}   {"login": false}   {"error": TEXT, "login": true|false}
 *
 * renew: after this number of seconds the same request, without a status, renews the token.
 * status: the server refused the last token, and said this in WWW-Authenticate. The second answer: there
 * has been no login, and no request was refused.
 */
int oauth_refresh(struct error *err);
