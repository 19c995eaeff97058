/* The processes of servers of which each principal has its own. */
#include "supervisor/hub/instances.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* why: a predicate; NULL: without a word to the monitor and to callers. */
static void end(struct instance *i, const char *why)
{
        LIST_REMOVE(i, link);
        i->instances->n--;
        event_del(&i->idle);
        if (why)
                hub_server_retire(i->server, why);
        else
                hub_server_free(i->server);
        free(i);
}

static void on_idle(evutil_socket_t fd, short what, void *data)
{
        struct instance *i = data;
        uint64_t unused = i->server->calls.count > 0
                                  ? 0
                                  : (clock_us() - i->server->calls.used_us) / 1000;

        if (unused >= i->instances->idle_ms) {
                end(i, "was unused");
                return;
        }
        const struct timeval in = clock_timeval_ms(i->instances->idle_ms - unused);
        event_add(&i->idle, &in);
}

static bool is_of(const struct instance *i, const char *principal, size_t n)
{
        return i->n == n && memcmp(i->principal, principal, n) == 0;
}

static size_t count_of(const struct instances *instances, const char *principal, size_t n)
{
        const struct instance *i;
        size_t count = 0;

        LIST_FOREACH (i, &instances->list, link)
                count += is_of(i, principal, n);
        return count;
}

/* Ends one without calls: of the principal that has the most, the one that was unused for longest. */
static bool make_room(struct instances *instances)
{
        struct instance *i, *found = NULL;
        size_t most = 0;

        LIST_FOREACH (i, &instances->list, link) {
                size_t n = i->server->calls.count == 0 ? count_of(instances, i->principal, i->n)
                                                       : 0;
                if (n > most ||
                    (n > 0 && n == most && i->server->calls.used_us < found->server->calls.used_us))
                        found = i, most = n;
        }
        if (found)
                end(found, "gave its place to another one");
        return found;
}

struct hub_server *instances_get(struct instances *instances, struct hub_server *of,
                                 const char *principal, size_t n, struct error *err)
{
        const struct timeval in = clock_timeval_ms(instances->idle_ms);
        struct instance *i;

        LIST_FOREACH (i, &instances->list, link) {
                if (i->of == of && is_of(i, principal, n))
                        return i->server;
        }
        if (count_of(instances, principal, n) >= INSTANCES_OF_ONE) {
                error_set(err, EAGAIN, "this client has %d processes of servers already",
                          INSTANCES_OF_ONE);
                return NULL;
        }
        if (instances->n >= INSTANCES_MAX && !make_room(instances)) {
                error_set(err, EAGAIN, "all %d processes of servers are in use", INSTANCES_MAX);
                return NULL;
        }
        i = calloc(1, sizeof(*i) + n + 1);
        if (i)
                i->server = hub_server_new(&instances->host, of->index, of->config);
        if (!i || !i->server) {
                free(i);
                error_errno(err, ENOMEM, "start");
                return NULL;
        }
        i->instances = instances;
        i->of = of;
        i->n = n;
        memcpy(i->principal, principal, n);
        hub_server_set_principal(i->server, i->principal, of);
        evtimer_assign(&i->idle, instances->host.base, on_idle, i);
        evtimer_add(&i->idle, &in);
        LIST_INSERT_HEAD(&instances->list, i, link);
        instances->n++;
        return i->server;
}

void instances_end(struct instances *instances, const char *principal)
{
        struct instance *i, *next;

        for (i = LIST_FIRST(&instances->list); i; i = next) {
                next = LIST_NEXT(i, link);
                if (!principal || is_of(i, principal, strlen(principal)))
                        end(i, principal ? "ended with its client" : NULL);
        }
}

void instances_reload(struct instances *instances, struct hub_server *const *servers, size_t n)
{
        struct instance *i, *next;

        for (i = LIST_FIRST(&instances->list); i; i = next) {
                size_t at = 0;

                next = LIST_NEXT(i, link);
                while (at < n && servers[at] != i->of)
                        at++;
                if (at == n) {
                        end(i, "was removed from the config, or changed in it");
                        continue;
                }
                hub_server_set_config(i->server, i->of->index, i->of->config);
                hub_server_ask_again(i->server);
        }
}
