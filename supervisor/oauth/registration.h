/* Which client Cloister is at an authorization server: the config's, one described by a document
 * (CIMD), one that was registered before, or a new registration (RFC 7591). */
#pragma once

#include "supervisor/oauth/discovery.h"

/*
 * The client to use. before: the last login, or NULL. *registered: it was registered dynamically. A
 * client with another port than `port` is not used again.
 */
int oauth_choose_client(const struct oauth_target *target, const struct oauth_discovery *found,
                        const struct oauth_record *before, uint16_t port, const char *redirect_uri,
                        struct oauth_client *ret, bool *registered, struct error *err);
