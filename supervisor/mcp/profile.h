/* Which profile a connection has: what a person said (--profile), else what the config says for the
 * client's name, else the config's usual one. */
#pragma once

#include <stdbool.h>

#include "policy/config.h"

struct mcp_server;

/* What a client calls itself; NULL: it did not say. The newest word counts. */
void mcp_note_client(struct mcp_server *server, const char *name);

/* NULL: the config has none, as tests make it. */
const struct config_profile *mcp_profile(const struct mcp_server *server);

/* Whether run_python's argument may name this one on a connection of profile own. */
static inline bool mcp_profile_is_choice(const struct config_profile *profile,
                                         const struct config_profile *own)
{
        return profile->agent || profile == own;
}

/* Whether there is anything to choose. */
bool mcp_profiles_to_choose(const struct config *config);
