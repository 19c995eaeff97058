/*
 * Changes to another config.
 *
 * A server is the same if it runs the same program (config_server.key): it runs on, with its calls,
 * under its new name, rules and timeouts. All that can fail is done before anything is changed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "supervisor/hub/hub-internal.h"

/* The usable server that runs what this entry says, or NULL; it is taken out of the list. */
static struct hub_server *take_same(struct hub *hub, struct hub_server **before,
                                    const struct config_server *config, bool by_name)
{
        for (size_t i = 0; i < hub->n_servers; i++) {
                struct hub_server *s = before[i];
                if (!s || hub_server_config(s)->key != config->key || hub_server_unusable(s) ||
                    (by_name && strcmp(hub_server_config(s)->name, config->name) != 0))
                        continue;
                before[i] = NULL;
                return s;
        }
        return NULL;
}

/* Called with by_name first, so that of two servers that run the same each keeps its name. */
static void match(struct hub *hub, struct hub_server **before, struct hub_server **after,
                  const struct config *config, bool by_name)
{
        for (size_t i = 0; i < config->n_servers; i++) {
                const struct config_server *c = &config->servers[i];
                if (!after[i] && !c->problem && !c->disabled)
                        after[i] = take_same(hub, before, c, by_name);
        }
}

static int make_rest(struct hub *hub, struct hub_server **after, const struct config *config)
{
        for (uint32_t i = 0; i < config->n_servers; i++) {
                if (after[i])
                        continue;
                after[i] = hub_server_new(&hub->server_host, i, &config->servers[i]);
                if (!after[i])
                        return -ENOMEM;
        }
        return 0;
}

static bool is_kept(const struct hub *hub, const struct hub_server *s)
{
        for (size_t i = 0; i < hub->n_servers; i++) {
                if (hub->servers[i] == s)
                        return true;
        }
        return false;
}

static void free_new(struct hub *hub, struct hub_server **after, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (after[i] && !is_kept(hub, after[i]))
                        hub_server_free(after[i]);
        }
        free(after);
}

/* Cannot fail. */
static void adopt(struct hub *hub, struct hub_server **before, struct hub_server **after,
                  const struct config *config)
{
        size_t n_before = hub->n_servers, n_stopped = 0;

        for (uint32_t i = 0; i < config->n_servers; i++)
                hub_server_set_config(after[i], i, &config->servers[i]);
        free(hub->servers);
        hub->servers = after;
        hub->n_servers = config->n_servers;
        hub->config = config;
        for (size_t i = 0; i < n_before; i++) {
                if (!before[i])
                        continue;
                hub_server_retire(before[i], "was removed from the config, or changed in it");
                n_stopped++;
        }
        for (size_t i = 0; i < hub->n_servers; i++)
                hub_server_ask_again(hub->servers[i]);
        log_info("config was reloaded: %zu servers, %zu stopped", hub->n_servers, n_stopped);
}

int hub_reload(struct hub *hub, const struct config *config, struct error *err)
{
        struct hub_server **before = calloc(hub->n_servers + 1, sizeof(struct hub_server *));
        struct hub_server **after = calloc(config->n_servers + 1, sizeof(struct hub_server *));
        int r = before && after ? 0 : -ENOMEM;

        if (r >= 0) {
                memcpy(before, hub->servers, hub->n_servers * sizeof(struct hub_server *));
                match(hub, before, after, config, true);
                match(hub, before, after, config, false);
                r = make_rest(hub, after, config);
        }
        if (r >= 0) {
                adopt(hub, before, after, config);
                free(before);
                hub_touch(hub);
                if (hub->is_in_use)
                        hub_start(hub, NULL, HUB_UNKNOWN);
                return 0;
        }
        if (after)
                free_new(hub, after, config->n_servers);
        free(before);
        return error_errno(err, -r, "the servers of the new config");
}
