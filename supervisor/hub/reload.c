/*
 * The servers of a config that was read anew.
 *
 * A server is the same when what runs is (config_server.key): it stays as it is, with its calls,
 * under whatever name, rules and times it has now. All that can fail is done before anything is
 * changed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "supervisor/hub/hub-internal.h"

/* The usable server of before that this entry goes on with; it is taken out of the list. */
static struct hub_server *take_same(struct hub *hub, struct hub_server **before,
                                    const struct config_server *config, bool by_name)
{
        for (size_t i = 0; i < hub->n_servers; i++) {
                struct hub_server *s = before[i];
                if (!s || s->config->key != config->key || hub_server_unusable(s) ||
                    (by_name && strcmp(s->config->name, config->name) != 0))
                        continue;
                before[i] = NULL;
                return s;
        }
        return NULL;
}

/* First those that kept their name, so that of two that run the same each keeps its own. */
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
                after[i] = hub_server_new(hub, i, &config->servers[i]);
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

/* From here on nothing fails. */
static void adopt(struct hub *hub, struct hub_server **before, struct hub_server **after,
                  const struct config *config)
{
        size_t n_before = hub->n_servers, n_stopped = 0;

        for (uint32_t i = 0; i < config->n_servers; i++) {
                after[i]->config = &config->servers[i];
                after[i]->index = i;
        }
        free(hub->servers);
        hub->servers = after;
        hub->n_servers = config->n_servers;
        hub->config = config;
        for (size_t i = 0; i < n_before; i++) {
                if (!before[i])
                        continue;
                hub_server_retire(before[i], "was taken out of the config, or changed in it");
                n_stopped++;
        }
        for (size_t i = 0; i < hub->n_servers; i++)
                hub_server_ask_again(hub->servers[i]);
        log_info("config read anew: %zu servers, %zu of before stopped", hub->n_servers, n_stopped);
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
