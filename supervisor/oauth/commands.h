/* The commands of cloister-oauth. Each returns 0 or negative errno with a message. */
#pragma once

#include "supervisor/oauth/target.h"

struct options;

/* Runs the whole flow. Text for the user goes to standard output. Of the options it uses scope and
 * no_browser: the redirect's URL is pasted on standard input. */
int oauth_login(const struct oauth_target *target, const struct options *options,
                struct error *err);

int oauth_logout(const struct oauth_target *target, struct error *err);

/*
 * A token for a request. Reads one JSON object from standard input, and writes one line to standard
 * output:
 *
 *     {"name", "url", "status"?: 401 | 403, "challenge"?: TEXT}
 *     {"token": TOKEN, "seconds"?: N, "renew"?: N}   {"login": false}   {"error": TEXT, "login": true|false}
 *
 * renew: in so many seconds the same request, without a status, renews the token.
 * status: the server refused the last token, and said this in WWW-Authenticate. The second answer: there
 * has been no login, and no request was refused.
 */
int oauth_refresh(struct error *err);

/* The URL that the browser opens. */
int oauth_authorization_url(const struct oauth_record *record, const char *endpoint,
                            const char *redirect_uri, const char *state, const char *challenge,
                            struct buffer *to);

/* Gives up what the process does not need any more. The files that the config names have been read. */
int oauth_confine(struct error *err);
