/*
 * Who is told of changes. A modern client opens streams with subscriptions/listen, each with a
 * filter, and every message of a stream carries its id. A legacy client is told what it asked for
 * on the connection itself: list changes once it has listed, resources that it subscribed to.
 */
#pragma once

#include <stdint.h>

#include "supervisor/mcp/reply.h"
#include "supervisor/mcp/request.h"
#include "supervisor/mcp/resource-uri.h"

struct mcp_server;

enum {
        SUBSCRIPTIONS_MAX = 64,  /* streams at once */
        WATCHED_URIS_MAX = 1024, /* of one stream, or of the legacy connection */
};

struct subscription {
        struct subscription *next;
        struct reply reply; /* of the listen request; without an id: the legacy connection */
        bool tools, resources;
        uint64_t tools_seen, resources_seen; /* serials of the lists that it knows of */
        struct resource_uri *uris;
        size_t n_uris;
};

void subscription_done(struct subscription *subscription);

/* subscriptions/listen: takes the reply, which stays open. */
void subscriptions_listen(struct mcp_server *server, const struct mcp_request *request,
                          struct reply *reply);
/* The client ended a stream: nothing follows. Returns whether there was one of this id. */
bool subscriptions_cancel(struct mcp_server *server, yyjson_val *id);
/* We end: each stream gets its result. */
void subscriptions_close(struct mcp_server *server);
void subscriptions_free(struct mcp_server *server);

/* resources/subscribe and unsubscribe of the legacy connection. Returns 0, -ENOSPC or -ENOMEM. */
int subscription_watch(struct subscription *subscription, const struct resource_uri *uri);
void subscription_unwatch(struct subscription *subscription, const struct resource_uri *uri);

/* Tells those who have not heard yet that the list of this serial is there. */
void subscriptions_tools_changed(struct mcp_server *server, uint64_t serial);
void subscriptions_resources_changed(struct mcp_server *server, uint64_t serial);
/* A resource has other contents, or is gone. */
void subscriptions_updated(struct mcp_server *server, const struct resource_uri *uri);
