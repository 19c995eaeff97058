/* Ready sandboxes. */
#include "supervisor/session/pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "policy/image.h"
#include "supervisor/session/pool-size.h"
#include "supervisor/session/sessions.h"

enum {
        MAKE_US = 10000, /* taken for granted until one was made */
        MAKE_LEAST_US = 500,
        MAKE_MOST_US = 100000, /* longer ones waited for an image or a template */
};

enum spare_state {
        SPARE_COMING,
        SPARE_READY,
        SPARE_ENDING,
};

struct spare {
        TAILQ_ENTRY(spare) link;
        struct pool *pool;
        enum spare_state state;
        bool unwanted; /* coming, and to be ended then */
        bool early;    /* its template had not imported all by then */
        uint32_t serial, target;
        struct config *config; /* referenced */
        size_t profile;
        int fds[SESSION_FDS];
        struct event *spoke;
        uint64_t asked_us, ready_us;
};

struct pool {
        struct sessions *set;
        bool open; /* somebody expects sessions */
        TAILQ_HEAD(, spare) spares;
        struct pool_size demand[CONFIG_PROFILES_MAX];
        double make_us;
        struct event *timer, *period;
        uint64_t patient_us; /* how long it lets cells go first */
};

static size_t n_profiles(const struct pool *p)
{
        size_t n = p->set->config->n_profiles;

        return n > 0 ? n : 1; /* a config without any, as tests make */
}

static const struct config_pool *settings_of(const struct pool *p, size_t profile)
{
        const struct config *config = p->set->config;

        return config->n_profiles > 0 ? &config->profiles[profile].pool : &config->top.pool;
}

static bool is_current(const struct spare *spare, size_t profile)
{
        return spare->config == spare->pool->set->config && spare->profile == profile &&
               !spare->unwanted;
}

static size_t count(const struct pool *p, enum spare_state state)
{
        const struct spare *spare;
        size_t n = 0;

        TAILQ_FOREACH (spare, &p->spares, link)
                n += spare->state == state && !spare->unwanted;
        return n;
}

size_t pool_count(const struct pool *p)
{
        return count(p, SPARE_COMING) + count(p, SPARE_READY);
}

size_t pool_ready(const struct pool *p)
{
        return count(p, SPARE_READY);
}

size_t pool_ending(const struct pool *p)
{
        const struct spare *spare;
        size_t n = 0;

        TAILQ_FOREACH (spare, &p->spares, link)
                n += spare->state == SPARE_ENDING || spare->unwanted;
        return n;
}

static struct spare *spare_free(struct spare *spare)
{
        TAILQ_REMOVE(&spare->pool->spares, spare, link);
        if (spare->spoke)
                event_free(spare->spoke);
        fd_close_many(spare->fds, SESSION_FDS);
        config_free(spare->config);
        free(spare);
        return NULL;
}

/* ---- how many ---- */

static size_t wanted(const struct pool *p, size_t profile)
{
        return pool_size_wanted(&p->demand[profile], settings_of(p, profile));
}

static size_t have(const struct pool *p, size_t profile)
{
        const struct spare *spare;
        size_t n = 0;

        TAILQ_FOREACH (spare, &p->spares, link)
                n += spare->state != SPARE_ENDING && is_current(spare, profile) && !spare->early;
        return n;
}

/* A config that says "idle": 1 means it of its spares, too. */
static void start_period(struct pool *p)
{
        uint64_t ms = p->set->config->session_idle_ms;
        struct timeval t = clock_timeval_ms(ms < POOL_PERIOD_MS ? ms : POOL_PERIOD_MS);

        if (!evtimer_pending(p->period, NULL))
                evtimer_add(p->period, &t);
}

/* ---- ends ---- */

/* Its place is free once the monitor says so. */
static void end_spare(struct spare *spare)
{
        struct sessions_host *host = &spare->pool->set->host;

        if (spare->state == SPARE_COMING) {
                spare->unwanted = true;
                return;
        }
        if (spare->spoke)
                event_del(spare->spoke);
        spare->state = SPARE_ENDING;
        host->kill(host->data, spare->target);
}

static void note_death(const struct spare *spare)
{
        uint64_t now = clock_us();

        pool_size_note_death(&spare->pool->demand[spare->profile], now, now - spare->ready_us);
}

/* It says something, or its channel ends: both before a cell has begun. */
static void on_spoke(evutil_socket_t fd, short what, void *data)
{
        struct spare *spare = data;
        char byte;

        ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
                return;
        if (n > 0)
                log_warning("sandbox %u spoke before it was asked anything: it is ended",
                            spare->target);
        note_death(spare);
        end_spare(spare);
        pool_look(spare->pool);
}

bool pool_give_up(struct pool *p)
{
        struct spare *spare, *least = NULL;

        TAILQ_FOREACH (spare, &p->spares, link) {
                if (spare->state == SPARE_ENDING || spare->unwanted)
                        continue;
                /* One that lives goes at once; better one of a profile that nobody expects. */
                if (!least || spare->state > least->state ||
                    (spare->state == least->state && p->demand[least->profile].expected))
                        least = spare;
        }
        if (!least)
                return false;
        end_spare(least);
        return true;
}

/* What is more than is wanted by now. */
static void trim(struct pool *p)
{
        for (size_t i = 0; i < n_profiles(p); i++) {
                struct spare *spare, *next;
                size_t most = wanted(p, i), n = have(p, i);
                for (spare = TAILQ_FIRST(&p->spares); spare && n > most; spare = next) {
                        next = TAILQ_NEXT(spare, link);
                        if (spare->state != SPARE_READY || !is_current(spare, i))
                                continue;
                        log_debug("sandbox %u was ready and nobody came: it is ended",
                                  spare->target);
                        end_spare(spare);
                        n--;
                }
        }
}

static void on_period(evutil_socket_t fd, short what, void *data)
{
        struct pool *p = data;
        uint64_t now = clock_us();
        bool again = false;

        for (size_t i = 0; i < n_profiles(p); i++) {
                if (pool_size_look_back(&p->demand[i], now, p->make_us))
                        again = true;
        }
        trim(p);
        if (again)
                start_period(p);
        pool_look(p);
}

/* ---- making one ---- */

static bool is_one_coming(const struct pool *p)
{
        const struct spare *spare;

        TAILQ_FOREACH (spare, &p->spares, link) {
                if (spare->state == SPARE_COMING)
                        return true;
        }
        return false;
}

/* The profile that lacks one and may have it first; *at: from when on. -1: none does. */
static int next_profile(const struct pool *p, uint64_t *at)
{
        int found = -1;

        for (size_t i = 0; i < n_profiles(p); i++) {
                const struct pool_size *d = &p->demand[i];
                if (d->suspended || have(p, i) >= wanted(p, i) ||
                    (found >= 0 && d->not_before_us >= *at))
                        continue;
                found = (int)i;
                *at = d->not_before_us;
        }
        return found;
}

static bool has_room(const struct pool *p)
{
        return p->set->n_live + pool_count(p) + pool_ending(p) < p->set->hello.sessions_max;
}

static void look_in(struct pool *p, uint64_t ms)
{
        struct timeval t = clock_timeval_ms(ms);

        evtimer_add(p->timer, &t);
}

void pool_look(struct pool *p)
{
        uint64_t at = 0, now;

        if (!p->open || evtimer_pending(p->timer, NULL) || p->set->n_creating > 0 || !has_room(p) ||
            is_one_coming(p) || next_profile(p, &at) < 0)
                return;
        now = clock_us();
        uint64_t wait = at > now ? (at - now) / 1000 + 1 : 0;
        p->patient_us = now + (wait + POOL_PATIENCE_MS) * 1000;
        look_in(p, wait > POOL_QUIET_MS ? wait : POOL_QUIET_MS);
}

static int ask_for_one(struct pool *p, size_t profile)
{
        struct sessions *set = p->set;
        struct spare *spare = calloc(1, sizeof(*spare));

        if (!spare)
                return -ENOMEM;
        *spare = (struct spare){.pool = p,
                                .state = SPARE_COMING,
                                .config = config_ref(set->config),
                                .profile = profile,
                                .asked_us = clock_us()};
        for (size_t i = 0; i < SESSION_FDS; i++)
                spare->fds[i] = -1;
        TAILQ_INSERT_TAIL(&p->spares, spare, link);
        int r = set->host.create(set->host.data, (uint32_t)profile, &spare->serial);
        if (r < 0)
                spare_free(spare);
        return r;
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        struct pool *p = data;
        uint64_t now = clock_us(), at = 0;

        /* Whatever is in the way calls pool_look() when it is not any more. */
        if (p->set->n_creating > 0 || !has_room(p) || is_one_coming(p))
                return;
        int profile = next_profile(p, &at);
        if (profile < 0)
                return;
        if (at > now)
                pool_look(p);
        else if (now < p->set->active_us + POOL_QUIET_MS * 1000 && now < p->patient_us)
                look_in(p, POOL_QUIET_MS);
        else if (ask_for_one(p, (size_t)profile) < 0)
                p->demand[profile].suspended = true;
}

/* ---- taking one ---- */

void pool_expect(struct pool *p, size_t profile)
{
        struct pool_size *d = &p->demand[profile];
        bool first = !p->open;

        if (p->open && d->expected)
                return;
        d->expected = true;
        p->open = true;
        if (first) {
                p->patient_us = clock_us();
                look_in(p, POOL_FIRST_MS);
        }
        pool_look(p);
}

/* A worker that has died meanwhile is no good, nor is one that has spoken. */
static bool is_silent(const struct spare *spare)
{
        char byte;

        return recv(spare->fds[SESSION_RPC], &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
               errno == EAGAIN;
}

static enum pool_answer take(struct pool *p, size_t profile, struct pool_taken *ret)
{
        struct spare *spare, *next;

        for (spare = TAILQ_FIRST(&p->spares); spare; spare = next) {
                next = TAILQ_NEXT(spare, link);
                if (spare->state != SPARE_READY || !is_current(spare, profile))
                        continue;
                if (!is_silent(spare)) {
                        on_spoke(spare->fds[SESSION_RPC], EV_READ, spare);
                        continue;
                }
                ret->target = spare->target;
                for (size_t i = 0; i < SESSION_FDS; i++)
                        ret->fds[i] = take_fd(spare->fds[i]);
                event_free(spare->spoke);
                spare->spoke = NULL;
                p->demand[profile].deaths = 0;
                spare_free(spare);
                return POOL_READY;
        }
        TAILQ_FOREACH (spare, &p->spares, link) {
                if (spare->state != SPARE_COMING || !is_current(spare, profile))
                        continue;
                ret->serial = spare->serial;
                spare_free(spare);
                return POOL_COMING;
        }
        return POOL_NOTHING;
}

enum pool_answer pool_take(struct pool *p, size_t profile, struct pool_taken *ret)
{
        if (!p->open)
                return POOL_NOTHING;
        enum pool_answer answer = take(p, profile, ret);
        pool_size_note(&p->demand[profile], clock_us(), p->make_us);
        start_period(p);
        if (answer == POOL_READY)
                pool_look(p);
        return answer;
}

static void note_first(struct pool_size *d, uint64_t now)
{
        if (d->first_us > 0)
                return;
        d->first_us = now;
        d->not_before_us = now + POOL_EARLY_MS * 1000;
}

void pool_note_made(struct pool *p, size_t profile)
{
        p->demand[profile].suspended = false;
        note_first(&p->demand[profile], clock_us());
}

/* ---- the monitor's events ---- */

/* A template goes on importing for a moment once it can make a session: who was born before does it
 * by itself. Others come later, and take the place of one of these. */
static void note_birth(struct pool *p, struct spare *born)
{
        struct pool_size *d = &p->demand[born->profile];
        struct spare *spare, *next;

        born->early = d->first_us == 0 || born->ready_us < d->first_us + POOL_EARLY_MS * 1000;
        note_first(d, born->ready_us);
        for (spare = TAILQ_FIRST(&p->spares); spare && !born->early; spare = next) {
                next = TAILQ_NEXT(spare, link);
                if (spare->early && spare->state == SPARE_READY && spare->profile == born->profile)
                        end_spare(spare);
        }
}

static void watch(struct spare *spare, const int fds[SESSION_FDS])
{
        struct pool *p = spare->pool;

        memcpy(spare->fds, fds, sizeof(spare->fds));
        spare->ready_us = clock_us();
        spare->state = SPARE_READY;
        spare->spoke = event_new(p->set->base, fds[SESSION_RPC], EV_READ | EV_PERSIST, on_spoke,
                                 spare);
        if (spare->unwanted || !spare->spoke || event_add(spare->spoke, NULL) < 0) {
                spare->unwanted = false;
                end_spare(spare);
        } else {
                note_birth(p, spare);
        }
        double took = (double)(spare->ready_us - spare->asked_us);
        took = took < MAKE_LEAST_US ? MAKE_LEAST_US : took > MAKE_MOST_US ? MAKE_MOST_US : took;
        p->make_us += (took - p->make_us) / 4;
}

bool pool_started(struct pool *p, uint32_t serial, uint32_t target, const int fds[SESSION_FDS])
{
        struct spare *spare;

        TAILQ_FOREACH (spare, &p->spares, link) {
                if (spare->state != SPARE_COMING || spare->serial != serial)
                        continue;
                spare->target = target;
                watch(spare, fds);
                log_debug("sandbox %u is ready", target);
                pool_look(p);
                return true;
        }
        return false;
}

/* A place is free. */
static void leave(struct spare *spare)
{
        struct sessions *set = spare->pool->set;

        spare_free(spare);
        sessions_room(set);
        pool_look(set->pool);
}

bool pool_failed(struct pool *p, uint32_t serial, const struct error *error)
{
        struct spare *spare;

        TAILQ_FOREACH (spare, &p->spares, link) {
                if (spare->state != SPARE_COMING || spare->serial != serial)
                        continue;
                if (error->code != ESTALE && is_current(spare, spare->profile)) {
                        p->demand[spare->profile].suspended = true;
                        log_error("%s", error->text);
                }
                leave(spare);
                return true;
        }
        return false;
}

bool pool_ended(struct pool *p, uint32_t target)
{
        struct spare *spare;

        TAILQ_FOREACH (spare, &p->spares, link) {
                if (spare->state == SPARE_COMING || spare->target != target)
                        continue;
                if (spare->state == SPARE_READY) {
                        log_info("sandbox %u, which was ready, has ended", target);
                        if (is_current(spare, spare->profile))
                                note_death(spare);
                }
                leave(spare);
                return true;
        }
        return false;
}

/* ---- the config ---- */

/* What is known of demand stays with a profile's name. Which are expected will be said anew. */
static void rename_demand(struct pool *p)
{
        const struct config *config = p->set->config;
        struct pool_size old[CONFIG_PROFILES_MAX];

        memcpy(old, p->demand, sizeof(old));
        memset(p->demand, 0, sizeof(p->demand));
        for (size_t i = 0; i < config->n_profiles; i++) {
                struct pool_size *d = &p->demand[i];
                for (size_t k = 0; k < CONFIG_PROFILES_MAX; k++) {
                        if (strcmp(old[k].name, config->profiles[i].name) == 0)
                                *d = old[k];
                }
                snprintf(d->name, sizeof(d->name), "%s", config->profiles[i].name);
                d->expected = d->suspended = false;
                d->first_us = 0; /* the template may be another one */
        }
}

void pool_reload(struct pool *p)
{
        struct spare *spare;

        TAILQ_FOREACH (spare, &p->spares, link) {
                if (spare->state != SPARE_ENDING)
                        end_spare(spare);
        }
        rename_demand(p);
}

int pool_new(struct pool **ret, struct sessions *set, struct error *err)
{
        struct pool *p = calloc(1, sizeof(*p));

        if (!p)
                return error_errno(err, ENOMEM, "pool");
        p->set = set;
        p->make_us = MAKE_US;
        TAILQ_INIT(&p->spares);
        rename_demand(p);
        p->timer = evtimer_new(set->base, on_timer, p);
        p->period = evtimer_new(set->base, on_period, p);
        if (!p->timer || !p->period) {
                pool_free(p);
                return error_errno(err, ENOMEM, "pool");
        }
        *ret = p;
        return 0;
}

struct pool *pool_free(struct pool *p)
{
        if (!p)
                return NULL;
        while (!TAILQ_EMPTY(&p->spares))
                spare_free(TAILQ_FIRST(&p->spares));
        if (p->timer)
                event_free(p->timer);
        if (p->period)
                event_free(p->period);
        free(p);
        return NULL;
}
