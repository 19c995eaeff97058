/*
 * The catalogue: the servers and their tools, as the payload of a CATALOG frame (hub.h). A view is the part
 * of it that a profile may use.
 *
 * Profiles with the same rules share a view. The complete catalogue always exists; its version changes when
 * anything has changed. A view is found by its rules and not by its profile, because the profiles are
 * replaced when the config is reloaded.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/buffer.h"
#include "policy/config/config.h"

bool hub_access_server(const struct config_profile *profile, const struct config_server *server);

/* Also false if the profile may not use the server. */
bool hub_access_tool(const struct config_profile *profile, const struct config_server *server,
                     const char *tool);

struct hub_server;

enum {
        CATALOGUE_VIEWS_MAX = 32, /* the least recently used one is freed first */
};

/* The servers of the hub, in the order of the config. */
struct hub_servers {
        struct hub_server **items;
        size_t n;
};

/* The payload of a CATALOG frame. It is counted, in any thread, and does not change. */
struct catalogue_text {
        unsigned refs;
        struct buffer bytes;
};

struct catalogue_text *catalogue_text_ref(struct catalogue_text *text);
/* NULL is allowed. Returns NULL. */
struct catalogue_text *catalogue_text_unref(struct catalogue_text *text);

struct catalogue_view {
        TAILQ_ENTRY(catalogue_view) link; /* most recently used first */
        struct buffer rules;              /* of the profile, as text; empty: no limit */
        struct catalogue_text *text;      /* NULL: it was never built */
        uint64_t version;
        uint64_t built; /* the version of the complete one that it was made from */
};

TAILQ_HEAD(catalogue_view_list, catalogue_view);

struct catalogue_views {
        struct catalogue_view complete;
        struct catalogue_view_list list; /* the others */
        size_t n;
        uint64_t last_version;
        struct hub_servers servers; /* set by the owner */
        bool stale;                 /* the complete one must be rebuilt; set by the owner */
};

void catalogue_views_init(struct catalogue_views *views);
void catalogue_views_done(struct catalogue_views *views);

/* Rebuilds the complete catalogue when it is stale. */
void catalogue_views_refresh(struct catalogue_views *views);

/* The catalogue of a profile (NULL: the complete one), borrowed until the next change. NULL: no memory. */
struct catalogue_text *catalogue_views_get(struct catalogue_views *views,
                                           const struct config_profile *profile, uint64_t *version);
