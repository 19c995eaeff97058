/* `cloister login` and `cloister logout`. */
#pragma once

#include "supervisor/oauth/discovery.h"
#include "supervisor/oauth/store.h"

struct options;

/* Runs the whole flow. Text for the user goes to standard output. Of the options it uses scope and
 * no_browser: the redirect's URL is pasted on standard input. */
int oauth_login(const struct oauth_target *target, const struct options *options,
                struct error *err);

/* Revokes the tokens and removes them. Returns 0 or negative errno. */
int oauth_logout(const struct oauth_target *target, struct error *err);

/* The URL that the browser opens. */
int oauth_authorization_url(const struct oauth_record *record, const char *endpoint,
                            const char *redirect_uri, const char *state, const char *challenge,
                            struct buffer *to);
