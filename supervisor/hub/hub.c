/*
 * The hub: all servers, and the callbacks to its user.
 *
 * A callback is never called from inside a function of the hub: a finished call is put in the outbox,
 * which makes the event `due` active, and its handler calls the callback from the loop. So callbacks
 * may call anything, hub_free() included.
 */
#include "supervisor/hub/hub.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/plural.h"
#include "policy/config/config.h"
#include "rpc/background.h"
#include "supervisor/hub/cache/cache.h"
#include "supervisor/hub/call/call.h"
#include "supervisor/hub/catalogue.h"
#include "supervisor/hub/http/exchange.h"
#include "supervisor/hub/instances.h"
#include "supervisor/hub/server/messages.h"
#include "supervisor/hub/server/server.h"
#include "supervisor/hub/tools/tool-search.h"
#include "supervisor/service/metrics.h"

enum {
        CHANGED_MS = 20, /* several servers become ready together */
        TURN_MAX = 256,  /* callbacks before other events are handled */
};

struct hub_wait {
        TAILQ_ENTRY(hub_wait) link;
        struct hub *hub;
        const struct config_profile *profile; /* borrowed; NULL: all servers */
        struct event deadline;
        void (*fn)(void *data);
        void *data;
};

TAILQ_HEAD(hub_wait_list, hub_wait);

struct hub {
        struct event_base *base;
        const struct config *config;
        struct hub_host host;
        struct hub_server_host server_host;
        struct instances instances;

        bool is_in_use; /* servers have been started */
        unsigned can;   /* what any client so far can be asked for */

        struct catalogue_views views; /* with the servers, by the indices of the config */
        uint64_t reported; /* the version of the complete catalogue that the owner knows of */
        struct event changed;

        struct call_outbox outbox;
        struct hub_wait_list waits;
        struct event due; /* runs the callbacks that are due, from the loop */
        bool *gone;       /* set when the hub is freed by one of them */
};

static bool is_any_starting(const struct hub *hub, const struct config_profile *profile)
{
        for (size_t i = 0; i < hub->views.servers.n; i++) {
                if (hub_server_is_starting(hub->views.servers.items[i]) &&
                    hub_access_server(profile, hub->views.servers.items[i]->config))
                        return true;
        }
        return false;
}

/* The first wait whose servers have all started or failed. */
static struct hub_wait *find_finished_wait(const struct hub *hub)
{
        struct hub_wait *wait;

        TAILQ_FOREACH (wait, &hub->waits, link) {
                if (!is_any_starting(hub, wait->profile))
                        return wait;
        }
        return NULL;
}

/* Ends a wait and calls its callback, which may free the hub. */
static void end_wait(struct hub_wait *wait)
{
        void (*fn)(void *data) = wait->fn;
        void *data = wait->data;

        hub_wait_cancel(wait);
        fn(data);
}

/* Calls the callbacks that are due. Returns false when one of them freed the hub. */
static bool deliver_some(struct hub *hub, const bool *gone)
{
        struct hub_wait *wait;
        int n = 0;

        while (n++ < TURN_MAX && !TAILQ_EMPTY(&hub->outbox.calls)) {
                call_outbox_deliver(&hub->outbox);
                if (*gone)
                        return false;
        }
        while (n++ < TURN_MAX && (wait = find_finished_wait(hub))) {
                end_wait(wait);
                if (*gone)
                        return false;
        }
        return true;
}

static void on_due(evutil_socket_t fd, short what, void *data)
{
        static const struct timeval now = {};
        struct hub *hub = data;
        bool gone = false;

        hub->gone = &gone;
        if (!deliver_some(hub, &gone))
                return;
        hub->gone = NULL;
        /* By the timer, so that descriptors come first. */
        if (!TAILQ_EMPTY(&hub->outbox.calls) || find_finished_wait(hub))
                event_add(&hub->due, &now);
}

static void on_changed(evutil_socket_t fd, short what, void *data)
{
        struct hub *hub = data;

        catalogue_views_refresh(&hub->views);
        if (hub->reported == hub->views.complete.version)
                return;
        hub->reported = hub->views.complete.version;
        hub->host.changed(hub->host.data);
}

/* The state of a server has changed, or another part of the catalogue. */
static void touch(void *data)
{
        struct hub *hub = data;
        struct timeval in = {.tv_usec = CHANGED_MS * 1000L};

        hub->views.stale = true;
        if (!evtimer_pending(&hub->changed, NULL))
                evtimer_add(&hub->changed, &in);
        if (!TAILQ_EMPTY(&hub->waits))
                event_active(&hub->due, EV_TIMEOUT, 0);
}

static void ignore_change(void *data)
{
}

const struct buffer *hub_catalogue(struct hub *hub, const struct config_profile *profile,
                                   uint64_t *version)
{
        /* Without memory: a catalogue must never show more than the profile allows. */
        static char none[] = "{\"servers\":[]}";
        static const struct buffer empty = {
                .data = none, .length = sizeof(none) - 1, .limit = sizeof(none)};
        const struct catalogue_text *text = catalogue_views_get(&hub->views, profile, version);

        return text ? &text->bytes : &empty;
}

/* Makes the servers of the config, with the tools that the cache has. */
static int add_servers(struct hub *hub)
{
        hub->views.servers.items = calloc(hub->config->n_servers + 1, sizeof(struct hub_server *));
        if (!hub->views.servers.items)
                return -ENOMEM;
        for (uint32_t i = 0; i < hub->config->n_servers; i++) {
                struct hub_server *s = hub_server_new(&hub->server_host, i,
                                                      &hub->config->servers[i]);
                if (!s)
                        return -ENOMEM;
                hub->views.servers.items[hub->views.servers.n++] = s;
        }
        return 0;
}

void hub_add_client(struct hub *hub, unsigned can)
{
        if (!(can & ~hub->server_host.can))
                return;
        hub->server_host.can |= can;
        hub->instances.host.can |= can;
        for (size_t i = 0; i < hub->views.servers.n; i++)
                hub_server_client_changed(hub->views.servers.items[i]);
}

int hub_new(struct hub **ret, struct event_base *base, const struct config *config, int state_dir,
            const struct hub_host *host, struct error *err)
{
        struct hub *hub = calloc(1, sizeof(*hub));
        if (!hub)
                return error_errno(err, ENOMEM, "hub");
        /* A write to a server that has ended fails with EPIPE instead. */
        signal(SIGPIPE, SIG_IGN);

        hub->base = base;
        hub->config = config;
        hub->host = *host;
        catalogue_views_init(&hub->views);
        TAILQ_INIT(&hub->waits);
        evtimer_assign(&hub->due, base, on_due, hub);
        TAILQ_INIT(&hub->outbox.calls);
        hub->outbox.due = &hub->due;
        evtimer_assign(&hub->changed, base, on_changed, hub);

        int cache_dir = hub_cache_open(state_dir);
        if (cache_dir < 0 && state_dir >= 0)
                log_info("cannot cache the tools of servers: %s", strerrordesc_np(-cache_dir));
        hub->server_host = (struct hub_server_host){
                .base = base,
                .cache_dir = cache_dir,
                .owner = &hub->host,
                .changed = touch,
                .data = hub,
        };
        /* A process of one principal changes neither the catalogue nor the cache. */
        hub->instances.host = hub->server_host;
        hub->instances.host.cache_dir = -1;
        hub->instances.host.changed = ignore_change;
        hub->instances.idle_ms = config->session_idle_ms;
        if (add_servers(hub) < 0) {
                hub_free(hub);
                return error_errno(err, ENOMEM, "hub");
        }
        /* The first catalogue is not a change. */
        catalogue_views_refresh(&hub->views);
        hub->reported = hub->views.complete.version;
        *ret = hub;
        return 0;
}

struct hub *hub_free(struct hub *hub)
{
        struct hub_wait *wait;

        if (!hub)
                return NULL;
        if (hub->gone)
                *hub->gone = true;
        instances_end(&hub->instances, NULL);
        for (size_t i = 0; i < hub->views.servers.n; i++)
                hub_server_free(hub->views.servers.items[i]);
        exchange_loop_free(hub->server_host.http);
        call_outbox_done(&hub->outbox);
        while ((wait = TAILQ_FIRST(&hub->waits)))
                hub_wait_cancel(wait);
        event_del(&hub->due);
        event_del(&hub->changed);
        catalogue_views_done(&hub->views);
        if (hub->server_host.cache_dir >= 0)
                close(hub->server_host.cache_dir);
        free(hub->views.servers.items);
        free(hub);
        return NULL;
}

struct hub_server *hub_server_at(const struct hub *hub, uint32_t index)
{
        return index < hub->views.servers.n ? hub->views.servers.items[index] : NULL;
}

void hub_put_servers(const struct hub *hub, struct json_out *out)
{
        const struct instance *i;

        for (size_t n = 0; n < hub->views.servers.n; n++)
                hub_server_put(hub->views.servers.items[n], out);
        LIST_FOREACH (i, &hub->instances.list, link)
                hub_server_put(i->server, out);
}

void hub_collect(const struct hub *hub)
{
        const struct instance *i;

        metrics_clear(METRIC_UPSTREAM_UP);
        for (size_t n = 0; n < hub->views.servers.n; n++)
                metrics_set(METRIC_UPSTREAM_UP, hub_server_is_up(hub->views.servers.items[n]),
                            hub_server_name(hub->views.servers.items[n]));
        LIST_FOREACH (i, &hub->instances.list, link) {
                if (hub_server_is_up(i->server))
                        metrics_set(METRIC_UPSTREAM_UP, 1, hub_server_name(i->server));
        }
}

/* All processes of a server are equal until the handshake, so that any of its instances that waits for one takes it. */
void hub_upstream_started(struct hub *hub, uint32_t index, uint32_t instance, const int fds[3])
{
        struct hub_server *s = hub_server_at(hub, index);
        struct instance *i;

        if (s && hub_server_started(s, instance, fds))
                return;
        LIST_FOREACH (i, &hub->instances.list, link) {
                if (i->of == s && hub_server_started(i->server, instance, fds))
                        return;
        }
        for (int n = 0; n < 3; n++)
                close(fds[n]);
        hub->host.stop(hub->host.data, instance);
}

void hub_upstream_failed(struct hub *hub, uint32_t index, const struct error *error)
{
        struct hub_server *s = hub_server_at(hub, index);
        struct instance *i;

        if (!s || hub_server_start_failed(s, error))
                return;
        LIST_FOREACH (i, &hub->instances.list, link) {
                if (i->of == s && hub_server_start_failed(i->server, error))
                        return;
        }
}

void hub_upstream_ended(struct hub *hub, uint32_t instance, int wait_status)
{
        struct instance *i;

        for (size_t n = 0; n < hub->views.servers.n; n++) {
                if (hub_server_ended(hub->views.servers.items[n], instance, wait_status))
                        return;
        }
        LIST_FOREACH (i, &hub->instances.list, link) {
                if (hub_server_ended(i->server, instance, wait_status))
                        return;
        }
}

void hub_start(struct hub *hub, const struct config_profile *profile, enum hub_which which)
{
        hub->is_in_use = true;
        for (size_t i = 0; i < hub->views.servers.n; i++) {
                struct hub_server *s = hub->views.servers.items[i];
                if (!hub_server_unusable(s) && (which == HUB_ALL || !s->tools) &&
                    hub_access_server(profile, s->config))
                        hub_server_start_unasked(s);
        }
}

/* The server of this name; of several, the usable one. */
static struct hub_server *find_server(struct hub *hub, const char *name)
{
        struct hub_server *found = NULL;

        for (size_t i = 0; i < hub->views.servers.n; i++) {
                struct hub_server *s = hub->views.servers.items[i];
                if (strcmp(s->config->name, name) != 0)
                        continue;
                if (!hub_server_unusable(s))
                        return s;
                if (!found)
                        found = s;
        }
        return found;
}

yyjson_val *hub_describe(struct hub *hub, const char *server, const char *tool, bool *trusts_hints)
{
        struct hub_server *s = find_server(hub, server);

        *trusts_hints = s && s->config->trust_hints;
        return s && s->tools && tool ? hub_tools_get(s->tools, tool) : NULL;
}

const char *hub_labels(struct hub *hub, const char *server)
{
        struct hub_server *s = find_server(hub, server);

        return s ? s->config->labels : NULL;
}

void hub_roots_changed(struct hub *hub, const char *server, const char *principal)
{
        struct hub_server *s = find_server(hub, server);
        const struct instance *i;

        if (s)
                hub_server_roots_changed(s);
        LIST_FOREACH (i, &hub->instances.list, link) {
                if (i->of == s && strcmp(i->principal, principal) == 0)
                        hub_server_roots_changed(i->server);
        }
}

void hub_forget(struct hub *hub, const char *principal)
{
        instances_end(&hub->instances, principal);
}

/* Fails the call because the profile, or the server's own rules, do not allow it. */
static void refuse(struct hub_call *call, const struct config_profile *profile,
                   const struct config_server *server, const char *tool)
{
        char rule[320];

        if (!config_tool_allowed(&server->tools, NULL, tool))
                snprintf(rule, sizeof(rule), "\"tools\" of server \"%s\" in the config",
                         server->name);
        else
                snprintf(rule, sizeof(rule), "profile \"%s\"", profile ? profile->name : "default");
        if (hub_access_server(profile, server))
                hub_call_finish(call, EVENT_FAILED, HUB_NOT_FOUND,
                                "%s does not allow tool \"%.200s\" of server \"%s\"", rule, tool,
                                server->name);
        else
                hub_call_finish(call, EVENT_FAILED, HUB_NOT_FOUND,
                                "%s does not allow server \"%s\"", rule, server->name);
}

static void call_server(struct hub *hub, struct hub_server *s, const struct hub_request *request,
                        struct hub_call *call)
{
        struct error err = {};

        if (s->config->per_principal && !hub_server_unusable(s)) {
                s = instances_get(&hub->instances, s,
                                  hub_caller_principal(request->caller, request->data), &err);
        }
        if (s)
                hub_server_call(s, call);
        else
                hub_call_finish(call, EVENT_FAILED, HUB_UNAVAILABLE, "server \"%s\": %s",
                                request->server, err.text);
}

int hub_call(struct hub *hub, const struct hub_request *request, struct hub_call **ret,
             struct error *err)
{
        const char *what = request->tool ? request->tool : request->method;
        struct hub_request call = *request;
        struct hub_server *s = find_server(hub, request->server);

        if (request->arguments && !yyjson_is_obj(request->arguments))
                return error_set(err, EINVAL, "the arguments of %.100s are not an object", what);
        if (!s)
                call.arguments = NULL, call.text = NULL; /* not sent, so not copied */
        int r = hub_call_new(hub->base, &hub->outbox, &call, s ? s->config->timeout_ms : 0, ret,
                             err);
        if (r < 0)
                return r;
        /* The rules for tools hold for other methods by their names. */
        if (!s)
                hub_call_finish(*ret, EVENT_FAILED, HUB_NOT_FOUND, "there is no server \"%.200s\"",
                                request->server);
        else if (!hub_access_tool(request->profile, s->config, what))
                refuse(*ret, request->profile, s->config, what);
        else
                call_server(hub, s, request, *ret);
        return 0;
}

static void on_wait_over(evutil_socket_t fd, short what, void *data)
{
        end_wait(data);
}

struct hub_wait *hub_wait(struct hub *hub, const struct config_profile *profile,
                          uint32_t timeout_ms, void (*fn)(void *data), void *data)
{
        struct timeval in = clock_timeval_ms(timeout_ms);
        struct hub_wait *wait = calloc(1, sizeof(*wait));
        if (!wait)
                return NULL;
        *wait = (struct hub_wait){.hub = hub, .profile = profile, .fn = fn, .data = data};
        evtimer_assign(&wait->deadline, hub->base, on_wait_over, wait);
        evtimer_add(&wait->deadline, &in);
        TAILQ_INSERT_TAIL(&hub->waits, wait, link);
        hub_start(hub, profile, HUB_UNKNOWN);
        event_active(&hub->due, EV_TIMEOUT, 0);
        return wait;
}

void hub_wait_cancel(struct hub_wait *wait)
{
        TAILQ_REMOVE(&wait->hub->waits, wait, link);
        event_del(&wait->deadline);
        free(wait);
}

/*
 * ---- another config ----
 *
 * A server is the same if it runs the same program (config_server.key): it runs on, with its calls, under
 * its new name, rules and timeouts. All steps that can fail come before the first change.
 */

/* The usable server that runs what this entry says, or NULL; it is taken out of the list. */
static struct hub_server *take_same(struct hub *hub, struct hub_server **before,
                                    const struct config_server *config, bool by_name)
{
        for (size_t i = 0; i < hub->views.servers.n; i++) {
                struct hub_server *s = before[i];
                if (!s || s->config->key != config->key || hub_server_unusable(s) ||
                    (by_name && strcmp(s->config->name, config->name) != 0))
                        continue;
                before[i] = NULL;
                return s;
        }
        return NULL;
}

/* Called with by_name first, so that of two servers that run the same each keeps its name. */
static void match(struct hub *hub, struct hub_server **before, struct hub_server **after,
                  const struct config *config, bool by_name)
{
        for (size_t i = 0; i < config->n_servers; i++) {
                const struct config_server *c = &config->servers[i];
                if (!after[i] && !c->problem && !c->disabled)
                        after[i] = take_same(hub, before, c, by_name);
        }
}

static int make_rest(struct hub *hub, struct hub_server **after, const struct config *config)
{
        for (uint32_t i = 0; i < config->n_servers; i++) {
                if (after[i])
                        continue;
                after[i] = hub_server_new(&hub->server_host, i, &config->servers[i]);
                if (!after[i])
                        return -ENOMEM;
        }
        return 0;
}

static bool is_kept(const struct hub *hub, const struct hub_server *s)
{
        for (size_t i = 0; i < hub->views.servers.n; i++) {
                if (hub->views.servers.items[i] == s)
                        return true;
        }
        return false;
}

static void free_new(struct hub *hub, struct hub_server **after, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (after[i] && !is_kept(hub, after[i]))
                        hub_server_free(after[i]);
        }
        free(after);
}

/* Cannot fail. */
static void adopt(struct hub *hub, struct hub_server **before, struct hub_server **after,
                  const struct config *config)
{
        size_t n_before = hub->views.servers.n, n_stopped = 0;

        for (uint32_t i = 0; i < config->n_servers; i++)
                hub_server_set_config(after[i], i, &config->servers[i]);
        free(hub->views.servers.items);
        hub->views.servers.items = after;
        hub->views.servers.n = config->n_servers;
        hub->config = config;
        hub->instances.idle_ms = config->session_idle_ms;
        instances_reload(&hub->instances, after, config->n_servers);
        for (size_t i = 0; i < n_before; i++) {
                if (!before[i])
                        continue;
                hub_server_retire(before[i], "was removed from the config, or changed in it");
                n_stopped++;
        }
        for (size_t i = 0; i < hub->views.servers.n; i++)
                hub_server_ask_again(hub->views.servers.items[i]);
        log_info("config was reloaded: %zu server%s, %zu stopped", hub->views.servers.n,
                 plural(hub->views.servers.n), n_stopped);
}

int hub_reload(struct hub *hub, const struct config *config, struct error *err)
{
        struct hub_server **before = calloc(hub->views.servers.n + 1, sizeof(struct hub_server *));
        struct hub_server **after = calloc(config->n_servers + 1, sizeof(struct hub_server *));
        int r = before && after ? 0 : -ENOMEM;

        if (r >= 0) {
                memcpy(before, hub->views.servers.items,
                       hub->views.servers.n * sizeof(struct hub_server *));
                match(hub, before, after, config, true);
                match(hub, before, after, config, false);
                r = make_rest(hub, after, config);
        }
        if (r >= 0) {
                adopt(hub, before, after, config);
                free(before);
                /* All get a new version: a session may change from one to another. */
                catalogue_views_done(&hub->views);
                touch(hub);
                if (hub->is_in_use)
                        hub_start(hub, NULL, HUB_UNKNOWN);
                return 0;
        }
        if (after)
                free_new(hub, after, config->n_servers);
        free(before);
        return error_errno(err, -r, "the servers of the new config");
}

/* ---- search ---- */

struct hub_search {
        struct background_job job;        /* first */
        struct catalogue_text *catalogue; /* a reference */
        size_t n, limit;
        void (*fn)(void *data, const char *found, size_t length);
        void *data;
        struct buffer found;
        int r;
        char query[];
};

static void run_search(struct background_job *job)
{
        struct hub_search *search = (void *)job;

        search->r = tool_search(&search->catalogue->bytes, search->query, search->n, search->limit,
                                &search->found);
}

static void free_search(struct background_job *job)
{
        struct hub_search *search = (void *)job;

        catalogue_text_unref(search->catalogue);
        background_free(search->found.data, search->found.allocated);
        free(search);
}

static void on_searched(struct background_job *job)
{
        struct hub_search *search = (void *)job;
        bool good = search->r >= 0;

        search->fn(search->data, good ? buffer_bytes(&search->found) : NULL,
                   good ? search->found.length : 0);
        free_search(job);
}

int hub_search(struct hub *hub, const struct config_profile *profile, const char *query, size_t n,
               size_t limit, void (*fn)(void *data, const char *found, size_t length), void *data,
               void **ret)
{
        struct catalogue_text *catalogue = catalogue_views_get(&hub->views, profile, NULL);
        static const struct background_kind kind = {run_search, on_searched, free_search};

        n = n < TOOL_SEARCH_BYTES_MAX ? n : TOOL_SEARCH_BYTES_MAX;
        struct hub_search *search = catalogue ? malloc(sizeof(*search) + n) : NULL;
        if (!search)
                return -ENOMEM;
        *search = (struct hub_search){.catalogue = catalogue_text_ref(catalogue),
                                      .n = n,
                                      .limit = limit,
                                      .fn = fn,
                                      .data = data};
        memcpy(search->query, query, n);
        buffer_init(&search->found, TOOL_SEARCH_ANSWER_MAX);
        *ret = search;
        background_start(&search->job, &kind, hub->base);
        return 0;
}

void hub_search_cancel(struct hub_search *search)
{
        background_cancel(&search->job);
}
