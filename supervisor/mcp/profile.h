/* The profile of a connection: that of --profile, else that of the client's name in the config,
 * else the config's default. */
#pragma once

#include <stdbool.h>

#include "policy/config.h"

struct mcp_peer;

/* The name that the client gave itself; NULL: none. The last one counts. */
void mcp_note_client(struct mcp_peer *peer, const char *name);

/* NULL: the config has no profiles (in tests). */
const struct config_profile *mcp_profile(const struct mcp_peer *peer);

/* Whether run_python's argument may name this profile on a connection with the profile own. */
static inline bool mcp_profile_is_choice(const struct config_profile *profile,
                                         const struct config_profile *own)
{
        return profile->agent || profile == own;
}

/* Whether an agent may choose any profile. */
bool mcp_profiles_to_choose(const struct config *config);
