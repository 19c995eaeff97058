/* Principals with sessions, their rights to places, and their rest. */
#include "supervisor/session/machine/principal.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/loop.h"

struct session_principal *principal_find(const struct session_principals *all, const char *name,
                                         size_t n)
{
        struct session_principal *p;

        LIST_FOREACH (p, &all->list, link) {
                if (strncmp(p->key, name, n) == 0 && p->key[n] == '\0')
                        return p;
        }
        return NULL;
}

struct session_principal *principal_ref(struct session_principals *all, const char *session_key)
{
        const char *name = session_key_name(session_key);
        size_t n = name > session_key ? (size_t)(name - session_key) - 1 : 0;
        struct session_principal *p = principal_find(all, session_key, n);

        if (p) {
                p->n_names++;
                return p;
        }
        p = calloc(1, sizeof(*p));
        if (!p)
                return NULL;
        p->all = all;
        memcpy(p->key, session_key, n);
        p->number = n > 0 ? ++all->last_number : 0;
        p->n_names = 1;
        LIST_INSERT_HEAD(&all->list, p, link);
        return p;
}

void principal_unref(struct session_principal *p)
{
        if (!p || --p->n_names > 0)
                return;
        LIST_REMOVE(p, link);
        loop_event_free(&p->quiet);
        call_counts_done(&p->sent);
        free(p);
}

static void send_rest(struct session_principal *p, uint32_t id, bool rests)
{
        if (id > 0)
                sandbox_request(p->all->requests, MONITOR_PRINCIPAL_REST, id, rests);
        p->rests = rests ? id : 0;
}

static bool may_rest(const struct session_principal *p)
{
        return p->n_calls == 0 && p->n_resting > 0;
}

static void on_quiet(evutil_socket_t fd, short what, void *data)
{
        struct session_principal *p = data;

        if (may_rest(p) && p->rests == 0 && clock_us() >= p->quiet_us)
                send_rest(p, principal_sums(p->all, p).id, true);
        else
                principal_count(p, 0, 0);
}

void principal_count(struct session_principal *p, int calls, int resting)
{
        uint64_t now = clock_us();

        p->n_calls += (size_t)calls;
        p->all->n_calls += (size_t)calls;
        p->n_resting += (size_t)resting;
        if (calls != 0)
                p->quiet_us = now + PRINCIPAL_QUIET_MS * UINT64_C(1000);
        if (!may_rest(p) && p->rests > 0)
                send_rest(p, p->rests, false);
        if (!may_rest(p) || p->rests > 0 || p->number == 0)
                return;
        const struct timeval wait = clock_timeval_ms(
                now < p->quiet_us ? (p->quiet_us - now) / 1000 + 1 : 0);
        if (!p->quiet)
                p->quiet = evtimer_new(p->all->base, on_quiet, p);
        /* Calls do not move it. */
        if (p->quiet && !event_pending(p->quiet, EV_TIMEOUT, NULL))
                evtimer_add(p->quiet, &wait);
}

bool principal_is_quiet(const struct session_principal *p, uint64_t passed_ms)
{
        if (p->n_calls > 0 || p->n_keeping >= PRINCIPAL_KEEPING)
                return passed_ms >= PRINCIPAL_LATE_MS;
        bool makes_spare = p->all->makes_spare && p->all->makes_spare(p->all->pool);
        return (p->all->n_calls == 0 && !makes_spare) || passed_ms >= PRINCIPAL_OTHERS_MS;
}

size_t principals_right(const struct session_principals *all, size_t places)
{
        size_t even = all->n > 0 ? places / all->n : places;

        return even > PRINCIPAL_PLACES ? PRINCIPAL_PLACES : even > 0 ? even : 1;
}

size_t principals_reserved(const struct session_principals *all,
                           const struct session_principal *principal, size_t places)
{
        size_t right = principals_right(all, places), taken = 0;
        size_t most = all->n > 1 ? (all->n - 1) * right : 0;
        const struct session_principal *p;

        if (principal->n_live < right)
                return 0;
        LIST_FOREACH (p, &all->list, link) {
                size_t live = p == principal ? 0 : p->n_live;
                taken += live < right ? live : right;
        }
        return taken < most ? most - taken : 0;
}

struct monitor_principal principal_sums(const struct session_principals *all,
                                        const struct session_principal *principal)
{
        struct monitor_principal sums = {.of = (uint32_t)all->n};

        if (all->sums && principal->key[0])
                all->sums(all->data, principal->key, &sums);
        sums.of = (uint32_t)all->n;
        return sums;
}
