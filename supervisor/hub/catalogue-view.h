/*
 * Catalogue views: the catalogue with what a profile may use.
 *
 * Profiles with the same rules share one view. The complete catalogue always exists; its version says
 * whether anything has changed. A view is found by its rules and not by its profile, because the
 * profiles are replaced when the config is reloaded.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/buffer.h"
#include "policy/config.h"

struct hub;

enum {
        CATALOGUE_VIEWS_MAX = 32,  /* the least recently used one is freed first */
        CATALOGUE_INDEXES_MAX = 4, /* of them with an index, besides the complete one */
};

struct tool_index;

struct catalogue_view {
        TAILQ_ENTRY(catalogue_view) link; /* most recently used first */
        struct buffer rules;              /* of the profile, as text; empty: no limit */
        struct buffer payload;
        struct tool_index *index; /* of the payload, once it was searched; or NULL */
        uint64_t version;
        uint64_t built; /* the version of the complete one that it was made from */
};

TAILQ_HEAD(catalogue_view_list, catalogue_view);

struct catalogue_views {
        struct catalogue_view complete;
        struct catalogue_view_list list; /* the others */
        size_t n;
        uint64_t last_version;
        struct buffer empty; /* an empty catalogue, for when there is no memory */
        bool stale;          /* the complete one must be rebuilt */
};

void catalogue_views_init(struct catalogue_views *views);
void catalogue_views_done(struct catalogue_views *views);

/* Rebuilds the complete catalogue when it is stale. */
void catalogue_views_refresh(struct hub *hub);

/* The catalogue of a profile (NULL: the complete one), valid until the next change. */
const struct buffer *catalogue_views_get(struct hub *hub, const struct config_profile *profile,
                                         uint64_t *version);

/* What searches of that catalogue read (tool-index.h), made when it is first asked for; borrowed. NULL:
 * no memory. */
struct tool_index *catalogue_views_index(struct hub *hub, const struct config_profile *profile);
