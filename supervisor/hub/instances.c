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

static bool is_of(const struct instance *i, struct book_principal principal)
{
        return strlen(i->principal) == principal.n &&
               memcmp(i->principal, principal.name, principal.n) == 0;
}

/* Ends the one without calls that was unused for longest. */
static bool make_room(struct instances *instances)
{
        struct instance *i, *found = NULL;

        LIST_FOREACH (i, &instances->list, link) {
                if (i->server->calls.count == 0 &&
                    (!found || i->server->calls.used_us < found->server->calls.used_us))
                        found = i;
        }
        if (found)
                end(found, "gave its place to another one");
        return found;
}

struct hub_server *instances_get(struct instances *instances, struct hub_server *of,
                                 struct book_principal principal, struct error *err)
{
        const struct timeval in = clock_timeval_ms(instances->idle_ms);
        struct instance *i;
        int n_of = 0, n = 0;

        LIST_FOREACH (i, &instances->list, link) {
                bool is_its = is_of(i, principal);
                if (is_its && i->of == of)
                        return i->server;
                n_of += is_its;
                n++;
        }
        if (n_of >= INSTANCES_OF_ONE || (n >= INSTANCES_MAX && !make_room(instances))) {
                error_set(err, EAGAIN, "%s %d processes of servers",
                          n_of >= INSTANCES_OF_ONE ? "this client has" : "all clients together use",
                          n_of >= INSTANCES_OF_ONE ? n_of : n);
                return NULL;
        }
        i = calloc(1, sizeof(*i) + principal.n + 1);
        if (i)
                i->server = hub_server_new(&instances->host, of->index, of->config);
        if (!i || !i->server) {
                free(i);
                error_errno(err, ENOMEM, "start");
                return NULL;
        }
        i->instances = instances;
        i->of = of;
        memcpy(i->principal, principal.name, principal.n);
        hub_server_set_principal(i->server, i->principal, of);
        evtimer_assign(&i->idle, instances->host.base, on_idle, i);
        evtimer_add(&i->idle, &in);
        LIST_INSERT_HEAD(&instances->list, i, link);
        return i->server;
}

void instances_end(struct instances *instances, const char *principal)
{
        struct instance *i, *next;

        for (i = LIST_FIRST(&instances->list); i; i = next) {
                next = LIST_NEXT(i, link);
                if (!principal || strcmp(i->principal, principal) == 0)
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
