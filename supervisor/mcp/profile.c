/* The profile of a request. */
#include "supervisor/mcp/profile.h"

#include "supervisor/mcp/state.h"

const struct config_profile *mcp_profile(const struct mcp_peer *peer, enum mcp_era era)
{
        const struct config *config = peer->server->config;
        const char *client = era == ERA_LEGACY && *peer->client ? peer->client : NULL;

        if (config->n_profiles == 0)
                return NULL;
        if (!peer->principal->profile)
                return &config->profiles[config_profile_of_client(config, client)];
        /* The monitor refuses a config without that of --profile; HTTP refuses a token without its own. */
        int i = config_find_profile(config, peer->principal->profile, NULL);
        return &config->profiles[i < 0 ? config->profile : (size_t)i];
}

bool mcp_profile_exists(const struct mcp_server *server, const char *name)
{
        return !name || config_find_profile(server->config, name, NULL) >= 0;
}

bool mcp_profiles_to_choose(const struct config *config, enum language language)
{
        for (size_t i = 0; i < config->n_profiles; i++) {
                if (mcp_profile_is_choice(&config->profiles[i], NULL, language))
                        return true;
        }
        return false;
}

bool mcp_profile_for(const struct config *config, const struct config_profile *own,
                     enum language language, const struct config_profile **ret)
{
        *ret = own;
        if (own ? own->language == language : language == LANGUAGE_PYTHON)
                return true;
        for (size_t i = 0; i < config->n_profiles; i++) {
                *ret = &config->profiles[i];
                /* Those of further languages have images of these. */
                if (!(*ret)->program.language && mcp_profile_is_choice(*ret, own, language))
                        return true;
        }
        *ret = NULL;
        return false;
}
