/* Streams of notifications. */
#include "supervisor/mcp/subscriptions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rpc/jsonrpc.h"
#include "supervisor/mcp/result.h"
#include "supervisor/mcp/server-internal.h"

enum { PARAMS_MAX = 16 * 1024 * 1024 };

void subscription_done(struct subscription *subscription)
{
        reply_done(&subscription->reply);
        free(subscription->uris);
        *subscription = (struct subscription){};
}

static ssize_t find_uri(const struct subscription *s, const struct resource_uri *uri)
{
        for (size_t i = 0; i < s->n_uris; i++) {
                if (resource_uri_same(&s->uris[i], uri))
                        return (ssize_t)i;
        }
        return -1;
}

static enum mcp_era era_of(const struct subscription *s)
{
        return s == &s->peer->legacy ? ERA_LEGACY : ERA_MODERN;
}

int subscription_watch(struct subscription *subscription, const struct resource_uri *uri)
{
        if (find_uri(subscription, uri) >= 0)
                return 0;
        if (subscription->n_uris == WATCHED_URIS_MAX)
                return -ENOSPC;
        struct resource_uri *more = reallocarray(subscription->uris, subscription->n_uris + 1,
                                                 sizeof(*more));
        if (!more)
                return -ENOMEM;
        subscription->uris = more;
        if (uri->kind == RESOURCE_TOOLS && subscription->catalogue_seen == 0)
                tool_list_catalogue(subscription->peer, era_of(subscription),
                                    &subscription->catalogue_seen);
        more[subscription->n_uris] = *uri;
        more[subscription->n_uris++].offset = 0;
        return 0;
}

void subscription_unwatch(struct subscription *subscription, const struct resource_uri *uri)
{
        ssize_t i = find_uri(subscription, uri);

        if (i >= 0)
                subscription->uris[i] = subscription->uris[--subscription->n_uris];
}

/* Begins params: {"_meta":{…}, for a stream, { for the connection. No comma may follow. */
static int begin_params(const struct subscription *s, struct buffer *to)
{
        int r = buffer_append(to, "{", 1);

        if (r < 0 || !s->reply.id_doc)
                return r;
        r = buffer_printf(to, "\"_meta\":{\"%s\":", META_SUBSCRIPTION);
        if (r >= 0)
                r = json_append(to, reply_id(&s->reply));
        return r < 0 ? r : buffer_append(to, "}", 1);
}

static void tell_list(const struct subscription *s, const char *method)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(PARAMS_MAX);

        int r = begin_params(s, &params);
        if (r >= 0)
                r = buffer_append(&params, "}", 1);
        if (r >= 0)
                mcp_notify(s->reply.sink, method, s->reply.id_doc ? &params : NULL);
}

static void tell_updated(const struct subscription *s, const struct resource_uri *uri)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(PARAMS_MAX);

        int r = begin_params(s, &params);
        if (r >= 0)
                r = buffer_printf(&params, "%s\"uri\":\"", s->reply.id_doc ? "," : "");
        if (r >= 0)
                r = resource_uri_append(uri, &params);
        if (r >= 0)
                r = buffer_append(&params, "\"}", 2);
        if (r >= 0)
                mcp_notify(s->reply.sink, "notifications/resources/updated", &params);
}

/* The first message of a stream: the parts of the filter that are supported. */
static int append_acknowledged(const struct subscription *s, struct buffer *to)
{
        const char *comma = "";
        int r = begin_params(s, to);

        if (r >= 0)
                r = buffer_printf(to, ",\"notifications\":{");
        if (r >= 0 && s->tools) {
                r = buffer_printf(to, "\"toolsListChanged\":true");
                comma = ",";
        }
        if (r >= 0 && s->resources) {
                r = buffer_printf(to, "%s\"resourcesListChanged\":true", comma);
                comma = ",";
        }
        if (r >= 0 && s->n_uris > 0)
                r = buffer_printf(to, "%s\"resourceSubscriptions\":[", comma);
        for (size_t i = 0; i < s->n_uris && r >= 0; i++) {
                r = buffer_printf(to, i > 0 ? ",\"" : "\"");
                if (r >= 0)
                        r = resource_uri_append(&s->uris[i], to);
                if (r >= 0)
                        r = buffer_append(to, "\"", 1);
        }
        if (r >= 0 && s->n_uris > 0)
                r = buffer_append(to, "]", 1);
        return r < 0 ? r : buffer_append(to, "}}", 2);
}

/* Foreign URIs, and those above the limit, are not acknowledged. */
static int read_uris(struct subscription *s, yyjson_val *list)
{
        yyjson_val *entry;
        size_t i, n;

        yyjson_arr_foreach (list, i, n, entry) {
                struct resource_uri uri;

                if (resource_uri_parse(yyjson_get_str(entry), yyjson_get_len(entry), &uri, NULL) <
                    0)
                        continue;
                int r = subscription_watch(s, &uri);
                if (r < 0)
                        return r == -ENOSPC ? 0 : r;
        }
        return 0;
}

/* Returns the first member that is not of its type, or NULL. Unknown members are ignored: they are
 * not acknowledged. */
static const char *find_malformed(yyjson_val *filter)
{
        static const char *const flags[] = {"toolsListChanged", "promptsListChanged",
                                            "resourcesListChanged"};
        yyjson_val *uris = yyjson_obj_get(filter, "resourceSubscriptions"), *uri;
        size_t i, n;

        for (i = 0; i < ARRAY_SIZE(flags); i++) {
                yyjson_val *flag = yyjson_obj_get(filter, flags[i]);
                if (flag && !yyjson_is_bool(flag))
                        return flags[i];
        }
        if (uris && !yyjson_is_arr(uris))
                return "resourceSubscriptions";
        yyjson_arr_foreach (uris, i, n, uri) {
                if (!yyjson_is_str(uri))
                        return "resourceSubscriptions";
        }
        return NULL;
}

static bool refuse_filter(struct mcp_server *server, yyjson_val *filter, struct reply *reply)
{
        const char *member = yyjson_is_obj(filter) ? find_malformed(filter) : NULL;
        char why[100];

        if (yyjson_is_obj(filter) && !member)
                return false;
        if (!member)
                snprintf(why, sizeof(why), "params.notifications must be an object");
        else
                snprintf(why, sizeof(why), "params.notifications.%s must be %s", member,
                         strcmp(member, "resourceSubscriptions") == 0 ? "an array of strings"
                                                                      : "true or false");
        mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS, why);
        return true;
}

static size_t count(const struct mcp_server *server, const struct mcp_principal *principal)
{
        size_t n = 0;

        for (const struct subscription *s = server->subscriptions; s; s = s->next)
                n += s->peer->principal == principal;
        return n;
}

static struct subscription *open_stream(struct mcp_peer *peer, yyjson_val *filter,
                                        struct reply *reply)
{
        struct mcp_server *server = peer->server;
        struct subscription *s = calloc(1, sizeof(*s));

        if (!s)
                return NULL;
        s->peer = peer;
        s->tools = yyjson_is_true(yyjson_obj_get(filter, "toolsListChanged"));
        s->resources = yyjson_is_true(yyjson_obj_get(filter, "resourcesListChanged"));
        s->tools_seen = tool_list_serial(peer, ERA_MODERN);
        s->resources_seen = peer->principal->resources_serial;
        if (read_uris(s, yyjson_obj_get(filter, "resourceSubscriptions")) < 0) {
                subscription_done(s);
                free(s);
                return NULL;
        }
        s->reply = *reply;
        s->reply.subscription = true;
        *reply = (struct reply){};
        s->next = server->subscriptions;
        server->subscriptions = s;
        return s;
}

void subscriptions_listen(struct mcp_server *server, const struct mcp_request *request,
                          struct reply *reply)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(PARAMS_MAX);
        yyjson_val *filter = yyjson_obj_get(request->params, "notifications");

        if (refuse_filter(server, filter, reply))
                return;
        if (count(server, request->peer->principal) >= SUBSCRIPTIONS_MAX) {
                mcp_answer_error(server, reply, JSONRPC_INTERNAL_ERROR,
                                 "too many subscriptions are open: cancel one first");
                return;
        }
        struct error err = {};
        if (!tool_list_get(request->peer, ERA_MODERN, &err))
                log_warning("the list of tools: %s", err.text);
        struct subscription *s = open_stream(request->peer, filter, reply);
        if (!s || append_acknowledged(s, &params) < 0) {
                mcp_answer_error(server, s ? &s->reply : reply, JSONRPC_INTERNAL_ERROR,
                                 "out of memory");
                return;
        }
        mcp_notify(s->reply.sink, "notifications/subscriptions/acknowledged", &params);
}

static void close_stream(struct subscription **at)
{
        struct subscription *s = *at;

        *at = s->next;
        subscription_done(s);
        free(s);
}

bool subscriptions_is_open(const struct mcp_peer *peer, yyjson_val *id)
{
        for (const struct subscription *s = peer->server->subscriptions; s; s = s->next) {
                if (s->peer == peer && reply_id_equals(reply_id(&s->reply), id))
                        return true;
        }
        return false;
}

bool subscriptions_cancel(struct mcp_peer *peer, yyjson_val *id)
{
        for (struct subscription **at = &peer->server->subscriptions; *at; at = &(*at)->next) {
                if ((*at)->peer == peer && reply_id_equals(reply_id(&(*at)->reply), id)) {
                        close_stream(at);
                        return true;
                }
        }
        return false;
}

void subscriptions_drop(struct mcp_peer *peer)
{
        struct subscription **at = &peer->server->subscriptions;

        while (*at) {
                if ((*at)->peer == peer)
                        close_stream(at);
                else
                        at = &(*at)->next;
        }
}

void subscriptions_close(struct mcp_server *server)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);

        if (buffer_append(&result, "{}", 2) < 0)
                return;
        while (server->subscriptions) {
                mcp_answer(server, &server->subscriptions->reply, &result);
                close_stream(&server->subscriptions);
        }
}

void subscriptions_free(struct mcp_server *server)
{
        while (server->subscriptions)
                close_stream(&server->subscriptions);
}

/* Calls for the legacy part of each peer, and for each stream, of one principal (NULL: of all). */
static void for_each(struct mcp_server *server, const struct mcp_principal *principal,
                     void (*act)(struct subscription *s, const void *argument),
                     const void *argument)
{
        struct mcp_peer *peer;

        LIST_FOREACH (peer, &server->peers, link) {
                if (!principal || peer->principal == principal)
                        act(&peer->legacy, argument);
        }
        for (struct subscription *s = server->subscriptions; s; s = s->next) {
                if (!principal || s->peer->principal == principal)
                        act(s, argument);
        }
}

static void tools_changed(struct subscription *s, const void *argument)
{
        uint64_t serial = tool_list_serial(s->peer, era_of(s));

        if (s->tools && s->tools_seen != serial)
                tell_list(s, "notifications/tools/list_changed");
        s->tools_seen = serial;
}

void subscriptions_tools_changed(struct mcp_server *server)
{
        for_each(server, NULL, tools_changed, NULL);
}

static void catalogue_changed(struct subscription *s, const void *argument)
{
        uint64_t version;

        if (s->catalogue_seen == 0)
                return;
        tool_list_catalogue(s->peer, era_of(s), &version);
        for (size_t i = 0; i < s->n_uris && version != s->catalogue_seen; i++) {
                if (s->uris[i].kind == RESOURCE_TOOLS)
                        tell_updated(s, &s->uris[i]);
        }
        s->catalogue_seen = version;
}

void subscriptions_catalogue_changed(struct mcp_server *server)
{
        for_each(server, NULL, catalogue_changed, NULL);
}

static void resources_changed(struct subscription *s, const void *argument)
{
        uint64_t serial = s->peer->principal->resources_serial;

        if (s->resources && s->resources_seen != serial)
                tell_list(s, "notifications/resources/list_changed");
        s->resources_seen = serial;
}

void subscriptions_resources_changed(struct mcp_server *server,
                                     const struct mcp_principal *principal)
{
        for_each(server, principal, resources_changed, NULL);
}

static void updated(struct subscription *s, const void *argument)
{
        if (find_uri(s, argument) >= 0)
                tell_updated(s, argument);
}

void subscriptions_updated(struct mcp_server *server, const struct mcp_principal *principal,
                           const struct resource_uri *uri)
{
        for_each(server, principal, updated, uri);
}
