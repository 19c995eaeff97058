/* The filter of one stream of notifications, or of the connection of a legacy client (subscriptions.h). */
#pragma once

#include <stdint.h>

#include "base/unguessable.h"
#include "supervisor/mcp/publish/published.h"
#include "supervisor/mcp/reply.h"
#include "supervisor/mcp/resources/resource-uri.h"

struct mcp_peer;

enum {
        SUBSCRIPTIONS_MAX = 64,  /* streams of a principal at once */
        WATCHED_URIS_MAX = 1024, /* of one stream, or of the legacy connection */
};

struct subscription {
        struct subscription *next;
        struct mcp_peer *peer;
        struct reply reply; /* of the listen request; without an id: the legacy connection */
        bool lists[PUBLISHED_LISTS];    /* those whose changes are wanted */
        uint64_t seen[PUBLISHED_LISTS]; /* serials of the last lists that it was notified of */
        uint64_t catalogue_seen; /* version of the catalogue, if it watches a resource of that */
        struct resource_uri *uris;
        size_t n_uris;
        char (*tasks)[UNGUESSABLE_LENGTH + 1]; /* ids */
        size_t n_tasks;
};
