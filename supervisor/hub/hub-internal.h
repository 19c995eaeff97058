/* The hub itself, for hub.c, reload.c and the catalogue. */
#pragma once

#include <event2/event_struct.h>
#include <sys/queue.h>

#include "supervisor/hub/call.h"
#include "supervisor/hub/catalogue-view.h"
#include "supervisor/hub/hub.h"
#include "supervisor/hub/server.h"

TAILQ_HEAD(hub_wait_list, hub_wait);

struct hub {
        struct event_base *base;
        const struct config *config;
        struct hub_host host;
        struct hub_server_host server_host;

        struct exchange_loop *http;  /* NULL until a server is reached by HTTP */
        struct hub_server **servers; /* n_servers, with the config's indices */
        size_t n_servers;

        bool is_in_use; /* servers have been started */
        unsigned can;   /* what any client so far can be asked for */

        struct catalogue_views views;
        uint64_t reported; /* the version of the complete catalogue that the owner knows of */
        struct event changed;

        struct call_outbox outbox;
        struct hub_wait_list waits;
        struct event due; /* runs the callbacks that are due, from the loop */
        bool *gone;       /* set when the hub is freed by one of them */
};

/* The state of a server has changed, or something that the catalogue shows. */
void hub_touch(struct hub *hub);

/* Of the tools of all servers together: each change is copied and parsed in the loop. */
enum { HUB_CATALOGUE_MAX = 8 * 1024 * 1024, HUB_CATALOGUE_VALUES_MAX = 400 * 1000 };

/* catalogue.c: the payload of a CATALOG frame, with what the profile (NULL: no limit) may use.
 * Returns 0, -EMSGSIZE, -ENOMEM. */
int hub_catalogue_build(struct buffer *b, const struct hub *hub,
                        const struct config_profile *profile);
