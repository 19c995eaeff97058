/*
 * The catalogue as each profile sees it.
 *
 * Profiles that let the same through share one view; the one that lets all through is always there,
 * and tells whether anything changed at all. A view is known by what it lets through, not by its
 * profile: a profile goes with its config when that is read anew, and the view stays.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/buffer.h"
#include "policy/config.h"

struct hub;

enum { CATALOGUE_VIEWS_MAX = 32 }; /* the one that was not asked for longest goes first */

struct catalogue_view {
        TAILQ_ENTRY(catalogue_view) link; /* the last one asked for is first */
        struct buffer rules;              /* what it lets through, as text; empty: all */
        struct buffer payload;
        uint64_t version;
        uint64_t built; /* the version of the whole that it was made from */
};

TAILQ_HEAD(catalogue_view_list, catalogue_view);

struct catalogue_views {
        struct catalogue_view whole;
        struct catalogue_view_list list; /* the others */
        size_t n;
        uint64_t last_version;
        struct buffer nothing; /* in place of what there is no memory for */
        bool stale;            /* the whole is not what the servers say now */
};

void catalogue_views_init(struct catalogue_views *views);
void catalogue_views_done(struct catalogue_views *views);

/* Makes the whole anew when it is stale. */
void catalogue_views_refresh(struct hub *hub);

/* The catalogue of a profile (NULL: the whole), valid until the next change. */
const struct buffer *catalogue_views_get(struct hub *hub, const struct config_profile *profile,
                                         uint64_t *version);
