/*
 * Notifications of changes. A modern client opens streams with subscriptions/listen, each with a
 * filter; every message of a stream has its id. A legacy client gets them on the connection:
 * changes of a list after it has asked for that list, and of resources that it subscribed to.
 */
#pragma once

#include "supervisor/mcp/publish/published.h"
#include "supervisor/mcp/request.h"

struct mcp_peer;
struct mcp_principal;
struct mcp_server;
struct mcp_task;
struct reply;
struct resource_uri;
struct subscription;

void subscription_done(struct subscription *subscription);

/* subscriptions/listen; takes ownership of the reply, which is answered when the stream ends. */
void subscriptions_listen(const struct mcp_request *request, struct reply *reply);
/* Whether a stream with this id is open. cancels: closes it; no message follows. */
bool subscriptions_is_open(const struct mcp_peer *peer, yyjson_val *id, bool cancels);
/* The peer ends: its streams do, without a message. */
void subscriptions_drop(struct mcp_peer *peer);
/* The server ends: each stream gets its result. */
void subscriptions_close(struct mcp_server *server);
void subscriptions_free(struct mcp_server *server);

/* resources/subscribe and unsubscribe of the legacy connection. Returns 0, -ENOSPC or -ENOMEM. */
int subscription_watch(struct subscription *subscription, const struct resource_uri *uri);
void subscription_unwatch(struct subscription *subscription, const struct resource_uri *uri);

/* A list is about to be sent to the request's client: a legacy client is notified of later changes. */
void subscription_list_sent(const struct mcp_request *request, enum published_list list);
/* Notifies those that do not know a list of their profile and era as it is now. principal: NULL: of
 * all. */
void subscriptions_lists_changed(struct mcp_server *server, const struct mcp_principal *principal);
/* Notifies those that watch the catalogue as a resource and do not know it as it is now. */
void subscriptions_catalogue_changed(struct mcp_server *server);
/* A task has ended, or wants to know something. */
void subscriptions_task_changed(struct mcp_server *server, const struct mcp_principal *principal,
                                const struct mcp_task *task);
/* A resource has changed or was removed. */
void subscriptions_updated(struct mcp_server *server, const struct mcp_principal *principal,
                           const struct resource_uri *uri);
