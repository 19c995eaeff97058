/* The profile of a request: that of its peer (--profile); otherwise, of a legacy connection, that of the
 * client's name in the config; otherwise the config's default. */
#pragma once

#include <stdbool.h>

#include "policy/config/config.h"
#include "supervisor/mcp/request.h"

struct mcp_peer;
struct mcp_server;

/* NULL: the config has no profiles (in tests). A modern request depends on no other one, and what a
 * client says of itself there changes nothing (specification, basic/index, "Per-response protocol
 * fields"). */
const struct config_profile *mcp_profile(const struct mcp_peer *peer, enum mcp_era era);

/* Whether the config has this profile. NULL: none is named, which is always so. */
bool mcp_profile_exists(const struct mcp_server *server, const char *name);

/* Whether the argument `profile` of the tool for this language may name this profile on a connection with the profile own. */
static inline bool mcp_profile_is_choice(const struct config_profile *profile,
                                         const struct config_profile *own, enum language language)
{
        return profile->language == language && (profile->agent || profile == own);
}

/* Whether an agent may choose any profile of this language. */
bool mcp_profiles_to_choose(const struct config *config, enum language language);

/* Whether the tool for this language exists on a connection with the profile own: a profile may be used. *ret: the one of a call
 * that names none; NULL: the config has no profiles (own is NULL). */
bool mcp_profile_for(const struct config *config, const struct config_profile *own,
                     enum language language, const struct config_profile **ret);
