/* What the hub's own files share: the hub itself. */
#pragma once

#include "supervisor/hub/call.h"
#include "supervisor/hub/catalogue-view.h"
#include "supervisor/hub/hub.h"
#include "supervisor/hub/server.h"

TAILQ_HEAD(hub_wait_list, hub_wait);

struct hub {
        struct event_base *base;
        const struct config *config;
        struct hub_host host;
        int cache_dir; /* -1: none */

        struct hub_server **servers; /* n_servers, the config's indices */
        size_t n_servers;

        bool is_in_use; /* somebody has asked for servers to be started */

        struct catalogue_views views;
        uint64_t told; /* the version of the whole that the owner knows of */
        struct event changed;

        struct hub_call_list finished; /* their callbacks are due */
        struct hub_wait_list waits;
        struct event due; /* runs the callbacks that are due, from the loop */
        bool *gone;       /* set when the hub is freed within one of them */
};

/* Something that the catalogue shows has changed, or a server's state. */
void hub_touch(struct hub *hub);

/* catalogue.c: the payload of a CATALOG frame, with what is in reach of the profile (NULL: all).
 * Returns 0, -EMSGSIZE, -ENOMEM. */
int hub_catalogue_build(struct buffer *b, const struct hub *hub,
                        const struct config_profile *profile);
