/* A config, and the expansion of what it names. Twice, as it is added beside an earlier file. */
#include "policy/config/add.h"
#include "policy/config/config.h"
#include "policy/config/keys.h"
#include "policy/config/server.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

static const char *lookup(const char *name)
{
        return strlen(name) % 2 ? "value ${A}" : NULL;
}

static void expand(const struct config *config)
{
        const struct config_values values = {.variable = lookup};

        for (size_t i = 0; i < config->n_servers; i++) {
                const struct config_server *s = &config->servers[i];
                struct config_server copy;
                struct error err = {};

                assert(s->name && (s->problem || s->command || s->url));
                if (config_copy(CONFIG_SERVER, s, &copy) < 0)
                        continue;
                config_server_expand(&copy, &values, &err);
                config_done(CONFIG_SERVER, &copy);
        }
}

static void check_profiles(const struct config *config)
{
        assert(config->n_profiles >= 1 && config->n_profiles <= CONFIG_PROFILES_MAX);
        assert(strcmp(config->profiles[0].name, "default") == 0);
        assert(config->profile < config->n_profiles);
        for (size_t i = 0; i < config->n_clients; i++)
                assert(config->clients[i].profile < config->n_profiles);
        for (size_t i = 0; i < config->n_profiles; i++) {
                const struct config_profile *p = &config->profiles[i];
                config_tool_allowed(&p->tools, "server", "tool_name");
                for (size_t j = 0; j < p->n_mounts; j++)
                        assert(p->mounts[j].target[0] == '/' && p->mounts[j].target[1]);
        }
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        struct error err = {};
        struct config *config = config_new();
        size_t servers = 0;

        assert(config);
        int r = config_add(config, "file", (const char *)data, n, &err);
        assert(r >= 0 || (config->n_servers == 0 && error_is_set(&err)));
        servers = config->n_servers;
        int again = config_add(config, "file", (const char *)data, n, &err);
        assert(r < 0 || again == 0 || servers > CONFIG_SERVERS_MAX / 2);
        for (size_t i = servers; i < config->n_servers; i++)
                assert(config->servers[i].problem);
        expand(config);
        if (config_finish(config, &err) >= 0)
                check_profiles(config);
        config_free(config);
        return r >= 0;
}

FUZZ_TARGET
