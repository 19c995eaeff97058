/* The tools of a server in the cache. */
#include "supervisor/hub/server/cached-tools.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "supervisor/hub/cache/cache.h"

static uint64_t key_of(const struct hub_server *s, unsigned can)
{
        return s->config->key ^ can * UINT64_C(0x9e3779b97f4a7c15);
}

void hub_server_save(struct hub_server *s)
{
        const struct hub_cache_entry entry = {s->tools, s->instructions,
                                              handshake_era(s->handshake)};
        int r = hub_cache_save(s->host->cache_dir, key_of(s, s->declared), &entry);

        if (r < 0)
                log_info("server %s: cannot cache its tools: %s", s->config->name,
                         strerrordesc_np(-r));
}

void hub_server_take_cached(struct hub_server *s)
{
        struct hub_cache_entry entry = {};
        uint64_t key = key_of(s, s->host->can);

        if (hub_cache_load(s->host->cache_dir, key, s->config->name, &entry) != 1)
                return;
        s->tools = entry.tools;
        s->instructions = entry.instructions;
        handshake_set_era(s->handshake, entry.era);
}

void hub_server_client_changed(struct hub_server *s)
{
        if ((s->state != SERVER_STOPPED && s->state != SERVER_FAILED) || hub_server_unusable(s))
                return;
        s->tools = hub_tools_free(s->tools);
        free(s->instructions);
        s->instructions = NULL;
        hub_server_take_cached(s);
        s->host->changed(s->host->data);
}
