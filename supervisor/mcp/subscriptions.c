/* Streams of notifications. */
#include "supervisor/mcp/subscriptions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json-out.h"
#include "base/log.h"
#include "rpc/jsonrpc.h"
#include "supervisor/mcp/state.h"
#include "supervisor/mcp/tasks/task.h"
#include "supervisor/mcp/tool.h"
#include "supervisor/service/phase.h"

enum { PARAMS_MAX = 16 * 1024 * 1024 };

void subscription_done(struct subscription *subscription)
{
        reply_done(&subscription->reply);
        free(subscription->uris);
        free(subscription->tasks);
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

/* The serial of a list, as this subscriber sees it. */
static uint64_t serial_of(const struct subscription *s, enum published_list list)
{
        const struct mcp_peer *peer = s->peer;
        uint64_t serial = published_serial(peer->principal, list);

        if (list == LIST_TOOLS)
                serial += tool_list_serial(peer, era_of(s));
        return list == LIST_RESOURCES ? serial + peer->principal->resources_serial : serial;
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

/* Begins params. A message of a stream has its id. */
static struct json_out begin_params(const struct subscription *s, struct buffer *to)
{
        struct json_out out = {.to = to};

        json_out_begin(&out, NULL, '{');
        if (s->reply.id_doc) {
                json_out_begin(&out, "_meta", '{');
                json_out_value(&out, META_SUBSCRIPTION, reply_id(&s->reply));
                json_out_end(&out, '}');
        }
        return out;
}

static void tell_list(const struct subscription *s, const char *method)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(PARAMS_MAX);
        struct json_out out = begin_params(s, &params);

        if (s->reply.id_doc)
                mcp_sink_notify_out(s->reply.sink, method, &out);
        else
                mcp_sink_notify(s->reply.sink, method, NULL);
}

static void tell_updated(const struct subscription *s, const struct resource_uri *uri)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(PARAMS_MAX);
        struct json_out out = begin_params(s, &params);

        resource_uri_put(&out, "uri", uri);
        mcp_sink_notify_out(s->reply.sink, "notifications/resources/updated", &out);
}

static void tell_task(const struct subscription *s, const struct mcp_task *task)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(RESULT_MAX);
        struct json_out out = begin_params(s, &params);

        task_put_detailed(&out, task);
        mcp_sink_notify_out(s->reply.sink, "notifications/tasks", &out);
}

static const struct {
        const char *flag, *method;
} lists[PUBLISHED_LISTS] = {
        [LIST_TOOLS] = {"toolsListChanged", "notifications/tools/list_changed"},
        [LIST_PROMPTS] = {"promptsListChanged", "notifications/prompts/list_changed"},
        [LIST_RESOURCES] = {"resourcesListChanged", "notifications/resources/list_changed"},
};

/* The first message of a stream: the parts of the filter that are supported. */
static int append_acknowledged(const struct subscription *s, struct buffer *to)
{
        struct json_out out = begin_params(s, to);

        json_out_begin(&out, "notifications", '{');
        for (int i = 0; i < PUBLISHED_LISTS; i++) {
                if (s->lists[i])
                        json_out_bool(&out, lists[i].flag, true);
        }
        if (s->n_uris > 0) {
                json_out_begin(&out, "resourceSubscriptions", '[');
                for (size_t i = 0; i < s->n_uris; i++)
                        resource_uri_put(&out, NULL, &s->uris[i]);
                json_out_end(&out, ']');
        }
        if (s->n_tasks > 0) {
                json_out_begin(&out, "taskIds", '[');
                for (size_t i = 0; i < s->n_tasks; i++)
                        json_out_text(&out, NULL, s->tasks[i]);
                json_out_end(&out, ']');
        }
        json_out_end(&out, '}');
        json_out_end(&out, '}');
        return out.error;
}

/* Foreign URIs, and those above the limit, are not acknowledged. */
static int read_uris(struct subscription *s, yyjson_val *list)
{
        yyjson_val *entry;
        size_t i, n;

        yyjson_arr_foreach (list, i, n, entry) {
                struct resource_uri uri;

                const char *text = yyjson_get_str(entry);
                size_t length = yyjson_get_len(entry);
                if (!published_take_uri(s->peer->principal, text, length, &uri) &&
                    resource_uri_parse(text, length, &uri, NULL) < 0)
                        continue;
                int r = subscription_watch(s, &uri);
                if (r < 0)
                        return r == -ENOSPC ? 0 : r;
        }
        return 0;
}

/* Unknown tasks are not acknowledged. */
static int read_tasks(struct subscription *s, yyjson_val *list)
{
        yyjson_val *entry;
        size_t i, n;

        if (yyjson_arr_size(list) == 0)
                return 0;
        s->tasks = calloc(TASKS_MAX, sizeof(*s->tasks));
        if (!s->tasks)
                return -ENOMEM;
        yyjson_arr_foreach (list, i, n, entry) {
                if (s->n_tasks < TASKS_MAX && tasks_find(s->peer->principal, yyjson_get_str(entry)))
                        snprintf(s->tasks[s->n_tasks++], sizeof(*s->tasks), "%s",
                                 yyjson_get_str(entry));
        }
        return 0;
}

/* Returns the first member that is not of its type, or NULL. Unknown members are ignored: they are
 * not acknowledged. */
static const char *find_malformed(yyjson_val *filter)
{
        static const char *const arrays[] = {"resourceSubscriptions", "taskIds"};
        size_t i, n;

        for (i = 0; i < PUBLISHED_LISTS; i++) {
                yyjson_val *flag = yyjson_obj_get(filter, lists[i].flag);
                if (flag && !yyjson_is_bool(flag))
                        return lists[i].flag;
        }
        for (size_t k = 0; k < ARRAY_SIZE(arrays); k++) {
                yyjson_val *list = yyjson_obj_get(filter, arrays[k]), *entry;
                if (list && !yyjson_is_arr(list))
                        return arrays[k];
                yyjson_arr_foreach (list, i, n, entry) {
                        if (!yyjson_is_str(entry))
                                return arrays[k];
                }
        }
        return NULL;
}

static bool refuse_filter(yyjson_val *filter, struct reply *reply)
{
        const char *member = yyjson_is_obj(filter) ? find_malformed(filter) : NULL;
        char why[100];

        if (yyjson_is_obj(filter) && !member)
                return false;
        if (!member)
                snprintf(why, sizeof(why), "params.notifications must be an object");
        else
                snprintf(why, sizeof(why), "params.notifications.%s must be %s", member,
                         strstr(member, "Changed") ? "true or false" : "an array of strings");
        reply_error(reply, JSONRPC_INVALID_PARAMS, why);
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
        for (int i = 0; i < PUBLISHED_LISTS; i++) {
                s->lists[i] = yyjson_is_true(yyjson_obj_get(filter, lists[i].flag));
                s->seen[i] = serial_of(s, (enum published_list)i);
        }
        if (read_uris(s, yyjson_obj_get(filter, "resourceSubscriptions")) < 0 ||
            read_tasks(s, yyjson_obj_get(filter, "taskIds")) < 0) {
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

void subscriptions_listen(const struct mcp_request *request, struct reply *reply)
{
        struct mcp_server *server = request->peer->server;
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(PARAMS_MAX);
        yyjson_val *filter = yyjson_obj_get(request->params, "notifications");
        struct service_refusal refusal;

        /* A client whose stream has ended would open it again, and the server could not end. */
        service_refuse_draining(&refusal);
        if (service_is_stopping() && reply_refuse(reply, &refusal))
                return;
        if (refuse_filter(filter, reply))
                return;
        if (yyjson_obj_get(filter, "taskIds") && !tasks_declared(request)) {
                tasks_reply_undeclared(reply);
                return;
        }
        if (count(server, request->peer->principal) >= SUBSCRIPTIONS_MAX) {
                reply_error(reply, JSONRPC_INTERNAL_ERROR,
                            "too many subscriptions are open: cancel one first");
                return;
        }
        struct error err = {};
        if (!tool_list_get(request->peer, ERA_MODERN, &err))
                log_warning("the list of tools: %s", err.text);
        struct subscription *s = open_stream(request->peer, filter, reply);
        if (!s || append_acknowledged(s, &params) < 0) {
                reply_error(s ? &s->reply : reply, JSONRPC_INTERNAL_ERROR, "out of memory");
                return;
        }
        mcp_sink_notify(s->reply.sink, "notifications/subscriptions/acknowledged", &params);
        for (size_t i = 0; i < s->n_tasks; i++) {
                struct mcp_task *task = tasks_find(request->peer->principal, s->tasks[i]);
                if (task && task->status != TASK_WORKING)
                        tell_task(s, task);
        }
}

static void close_stream(struct subscription **at)
{
        struct subscription *s = *at;

        *at = s->next;
        subscription_done(s);
        free(s);
}

bool subscriptions_is_open(const struct mcp_peer *peer, yyjson_val *id, bool cancels)
{
        for (struct subscription **at = &peer->server->subscriptions; *at; at = &(*at)->next) {
                if ((*at)->peer == peer && jsonrpc_id_equals(reply_id(&(*at)->reply), id)) {
                        if (cancels)
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
        while (server->subscriptions) {
                reply_empty(&server->subscriptions->reply);
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

void subscription_list_sent(const struct mcp_request *request, enum published_list list)
{
        struct subscription *legacy = &request->peer->legacy;

        if (request->era != ERA_LEGACY)
                return;
        legacy->lists[list] = true;
        legacy->seen[list] = serial_of(legacy, list);
}

static void lists_changed(struct subscription *s, const void *argument)
{
        for (int i = 0; i < PUBLISHED_LISTS; i++) {
                uint64_t serial = serial_of(s, (enum published_list)i);

                if (s->lists[i] && s->seen[i] != serial)
                        tell_list(s, lists[i].method);
                s->seen[i] = serial;
        }
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

void subscriptions_lists_changed(struct mcp_server *server, const struct mcp_principal *principal)
{
        for_each(server, principal, lists_changed, NULL);
}

static void task_changed(struct subscription *s, const void *argument)
{
        for (size_t i = 0; i < s->n_tasks; i++) {
                if (tasks_find(s->peer->principal, s->tasks[i]) == argument)
                        tell_task(s, argument);
        }
}

void subscriptions_task_changed(struct mcp_server *server, const struct mcp_principal *principal,
                                const struct mcp_task *task)
{
        for_each(server, principal, task_changed, task);
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
