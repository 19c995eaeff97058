/*
 * The hub: all servers, what is told of them, and whose turn it is to be told.
 *
 * Nothing here calls back from within a call of ours: an outcome puts its call in `finished` and
 * makes the event `due` active, whose handler then runs from the loop, with nothing of ours on the
 * stack below it but itself. So callbacks may call anything, hub_free() included.
 */
#include "supervisor/hub/hub.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "supervisor/hub/access.h"
#include "supervisor/hub/catalogue-cache.h"
#include "supervisor/hub/hub-internal.h"

enum {
        CHANGED_MS = 20, /* several servers become ready together */
        TURN_MAX = 256,  /* callbacks before the loop has its turn */
};

struct hub_wait {
        TAILQ_ENTRY(hub_wait) link;
        struct hub *hub;
        const struct config_profile *profile; /* borrowed; NULL: all servers */
        struct event deadline;
        void (*fn)(void *data);
        void *data;
};

static const char *const outcome_kinds[] = {
        [HUB_OK] = "ToolError", /* with isError; the tool itself says that it failed */
        [HUB_NOT_FOUND] = "ToolNotFound", [HUB_UNAVAILABLE] = "ToolUnavailable",
        [HUB_TIMEOUT] = "ToolTimeout",    [HUB_PROTOCOL] = "ToolProtocolError",
};
static_assert(ARRAY_SIZE(outcome_kinds) == HUB_OUTCOME_MAX, "a kind an outcome");

const char *hub_outcome_kind(enum hub_outcome outcome)
{
        return outcome < HUB_OUTCOME_MAX ? outcome_kinds[outcome] : "ToolError";
}

static bool is_any_starting(const struct hub *hub, const struct config_profile *profile)
{
        for (size_t i = 0; i < hub->n_servers; i++) {
                if (hub_server_is_starting(hub->servers[i]) &&
                    hub_access_server(profile, hub->servers[i]->config))
                        return true;
        }
        return false;
}

/* The first wait that has nothing to wait for any more. */
static struct hub_wait *find_over(const struct hub *hub)
{
        struct hub_wait *wait;

        TAILQ_FOREACH (wait, &hub->waits, link) {
                if (!is_any_starting(hub, wait->profile))
                        return wait;
        }
        return NULL;
}

/* Ends a wait and tells it; nothing may be touched afterwards. */
static void tell_wait(struct hub_wait *wait)
{
        void (*fn)(void *data) = wait->fn;
        void *data = wait->data;

        hub_wait_cancel(wait);
        fn(data);
}

/* Tells those whose outcome is there. Returns false when the hub was freed meanwhile. */
static bool tell_some(struct hub *hub, const bool *gone)
{
        struct hub_call *call;
        struct hub_wait *wait;
        int n = 0;

        while (n++ < TURN_MAX && (call = TAILQ_FIRST(&hub->finished))) {
                hub_call_tell(call);
                if (*gone)
                        return false;
        }
        while (n++ < TURN_MAX && (wait = find_over(hub))) {
                tell_wait(wait);
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

        (void)fd;
        (void)what;
        hub->gone = &gone;
        if (!tell_some(hub, &gone))
                return;
        hub->gone = NULL;
        /* By the timer, so that descriptors have their turn first. */
        if (!TAILQ_EMPTY(&hub->finished) || find_over(hub))
                event_add(&hub->due, &now);
}

static void on_changed(evutil_socket_t fd, short what, void *data)
{
        struct hub *hub = data;

        (void)fd;
        (void)what;
        catalogue_views_refresh(hub);
        if (hub->told == hub->views.whole.version)
                return;
        hub->told = hub->views.whole.version;
        hub->host.changed(hub->host.data);
}

void hub_touch(struct hub *hub)
{
        struct timeval in = {.tv_usec = CHANGED_MS * 1000L};

        hub->views.stale = true;
        if (!evtimer_pending(&hub->changed, NULL))
                evtimer_add(&hub->changed, &in);
        if (!TAILQ_EMPTY(&hub->waits))
                event_active(&hub->due, EV_TIMEOUT, 0);
}

const struct buffer *hub_catalogue(struct hub *hub, const struct config_profile *profile,
                                   uint64_t *version)
{
        return catalogue_views_get(hub, profile, version);
}

/* Makes the servers of the config, those that the cache knows with their tools. */
static int add_servers(struct hub *hub)
{
        hub->servers = calloc(hub->config->n_servers + 1, sizeof(struct hub_server *));
        if (!hub->servers)
                return -ENOMEM;
        for (uint32_t i = 0; i < hub->config->n_servers; i++) {
                struct hub_server *s = hub_server_new(hub, i, &hub->config->servers[i]);
                if (!s)
                        return -ENOMEM;
                hub->servers[hub->n_servers++] = s;
        }
        return 0;
}

int hub_new(struct hub **ret, struct event_base *base, const struct config *config, int state_dir,
            const struct hub_host *host, struct error *err)
{
        struct hub *hub = calloc(1, sizeof(*hub));
        if (!hub)
                return error_errno(err, ENOMEM, "hub");
        /* A server that ends while it is written to is its own problem. */
        signal(SIGPIPE, SIG_IGN);

        hub->base = base;
        hub->config = config;
        hub->host = *host;
        catalogue_views_init(&hub->views);
        TAILQ_INIT(&hub->finished);
        TAILQ_INIT(&hub->waits);
        evtimer_assign(&hub->due, base, on_due, hub);
        evtimer_assign(&hub->changed, base, on_changed, hub);

        hub->cache_dir = hub_cache_open(state_dir);
        if (hub->cache_dir < 0 && state_dir >= 0)
                log_info("no cache of catalogues: %s", strerrordesc_np(-hub->cache_dir));
        if (add_servers(hub) < 0) {
                hub_free(hub);
                return error_errno(err, ENOMEM, "hub");
        }
        /* The first catalogue is nobody's news. */
        catalogue_views_refresh(hub);
        hub->told = hub->views.whole.version;
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
        for (size_t i = 0; i < hub->n_servers; i++)
                hub_server_free(hub->servers[i]);
        hub_call_free_all(&hub->finished);
        while ((wait = TAILQ_FIRST(&hub->waits)))
                hub_wait_cancel(wait);
        event_del(&hub->due);
        event_del(&hub->changed);
        catalogue_views_done(&hub->views);
        if (hub->cache_dir >= 0)
                close(hub->cache_dir);
        free(hub->servers);
        free(hub);
        return NULL;
}

void hub_upstream_started(struct hub *hub, uint32_t index, uint32_t instance, const int fds[3])
{
        if (index < hub->n_servers && hub_server_started(hub->servers[index], instance, fds))
                return;
        for (int i = 0; i < 3; i++)
                close(fds[i]);
        hub->host.stop(hub->host.data, instance);
}

void hub_upstream_failed(struct hub *hub, uint32_t index, const struct error *error)
{
        if (index >= hub->n_servers || hub->servers[index]->state != SERVER_STARTING)
                return;
        hub_server_fail(hub->servers[index], error);
}

void hub_upstream_ended(struct hub *hub, uint32_t instance, int wait_status)
{
        for (size_t i = 0; i < hub->n_servers; i++) {
                struct hub_server *s = hub->servers[i];
                if (!s->has_instance || s->has_ended || s->instance != instance)
                        continue;
                hub_server_ended(s, wait_status);
                return;
        }
}

static bool should_start(const struct hub_server *s, const struct config_profile *profile,
                         enum hub_which which)
{
        uint64_t since = clock_us() - s->failed_at;

        if (hub_server_unusable(s) || (which == HUB_UNKNOWN && s->tools) ||
            !hub_access_server(profile, s->config))
                return false;
        if (s->state == SERVER_FAILED)
                return clock_us() >= s->retry_at && since >= HUB_RETRY_UNASKED_MS * 1000ULL;
        return s->state == SERVER_STOPPED;
}

void hub_start(struct hub *hub, const struct config_profile *profile, enum hub_which which)
{
        hub->is_in_use = true;
        for (size_t i = 0; i < hub->n_servers; i++) {
                if (should_start(hub->servers[i], profile, which))
                        hub_server_start(hub->servers[i]);
        }
}

static void on_wait_over(evutil_socket_t fd, short what, void *data)
{
        (void)fd;
        (void)what;
        tell_wait(data);
}

struct hub_wait *hub_wait(struct hub *hub, const struct config_profile *profile,
                          uint32_t timeout_ms, void (*fn)(void *data), void *data)
{
        struct timeval in = {.tv_sec = timeout_ms / 1000,
                             .tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000};
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
