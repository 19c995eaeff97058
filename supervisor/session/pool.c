/* Spare sandboxes. */
#include "supervisor/session/pool.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "policy/image.h"

enum {
        CLIENTS_MAX = 64,
        MAKE_US = 10000, /* taken for granted until one was made */
        MAKE_MIN_US = 500,
        MAKE_MAX_US = 100000, /* longer ones waited for an image or a template */
        PARTS = 7,            /* a spare stays for six of them, a period, and the rest of one */
        BOUNDED_MS = 5000,    /* a sum of memory bounds the pool: it asks again */
};

enum spare_state {
        SPARE_COMING,     /* requested */
        SPARE_DISCARDING, /* requested; killed as soon as it exists */
        SPARE_EARLY,      /* ready, but its template had not imported everything */
        SPARE_READY,
        SPARE_ENDING, /* the monitor is killing it */
};

struct spare {
        TAILQ_ENTRY(spare) link;
        struct pool *pool;
        enum spare_state state;
        uint32_t serial, target;
        size_t profile;
        struct monitor_principal principal;
        int fds[SESSION_FDS];
        struct event *readable;
        uint64_t asked_us, ready_us;
};

/*
 * How many spares a profile should have, computed from the times at which its sessions took one. A leaky bucket: each
 * session adds one, and it drains at the rate at which sandboxes are made. Its level is the number of spares with which no
 * session would have waited.
 */
struct pool_size {
        char name[IMAGE_NAME_SIZE]; /* of the profile */
        bool expected;              /* sessions are expected */
        bool suspended;             /* the last request failed */
        double level;               /* of the bucket, at level_us */
        uint64_t level_us;
        unsigned int peaks[PARTS]; /* highest level in this part of a period, and in those before */
        uint64_t first_us;         /* when the first sandbox was ready; 0: none was */
        unsigned int deaths;       /* in a row */
        uint64_t not_before_us;    /* the next sandbox is not requested before */
        uint64_t told_us;          /* when it was last logged why there are not more; 0: never */
};

/* A principal whose sessions have this profile. */
struct pool_client {
        struct monitor_principal is;
        size_t profile;
        uint64_t used_us; /* its last call */
};

struct pool {
        struct event_base *base;
        const struct config *config; /* borrowed; of all spares that are not to be ended */
        struct sandbox_requests requests;
        void (*place_free)(void *data);
        void *data;
        size_t n_live, n_waiting, sessions_max; /* sessions */
        uint64_t active_us;                     /* a cell was last queued, started or ended */

        bool expected; /* sessions of some profile are */
        bool is_named; /* all calls are of principals with names */
        TAILQ_HEAD(, spare) spares;
        struct pool_size sizes[CONFIG_PROFILES_MAX];
        struct pool_client clients[CLIENTS_MAX]; /* the last ones */
        size_t n_clients;
        double make_us; /* mean time in which a sandbox is made */
        struct event *timer, *period;
        uint64_t latest_us; /* a request is delayed until then at most */
        uint64_t hurry_us;  /* until then a call has waited lately: no request is delayed */
};

/* ---- how many ---- */

static double level_at(const struct pool_size *size, uint64_t now, double make_us)
{
        double level = size->level - (double)(now - size->level_us) / make_us;

        return level > 0 ? level : 0;
}

/* A session takes a sandbox. make_us: how long it takes to make one. */
static void size_note(struct pool_size *size, uint64_t now, double make_us)
{
        double level = level_at(size, now, make_us) + 1;

        size->level = level < CONFIG_POOL_MAX ? level : CONFIG_POOL_MAX;
        size->level_us = now;
        if (size->level > size->peaks[0])
                size->peaks[0] = (unsigned int)ceil(size->level);
}

static size_t size_peak(const struct pool_size *size)
{
        unsigned int most = 0;

        for (size_t i = 0; i < PARTS; i++)
                most = size->peaks[i] > most ? size->peaks[i] : most;
        return most;
}

/* Returns whether a session took a sandbox in the last period. */
static bool size_end_part(struct pool_size *size, uint64_t now, double make_us)
{
        memmove(size->peaks + 1, size->peaks, (PARTS - 1) * sizeof(size->peaks[0]));
        size->peaks[0] = (unsigned int)ceil(level_at(size, now, make_us));
        return size_peak(size) > 0;
}

static size_t size_wanted(const struct pool_size *size, const struct config_pool *limits)
{
        size_t need = size_peak(size);

        if (!size->expected && need == 0)
                return 0;
        if (need < limits->min)
                return limits->min;
        return need < limits->max ? need : limits->max;
}

/* A sandbox of the profile is ready; only the first one counts. */
static void size_note_first(struct pool_size *size, uint64_t now)
{
        if (size->first_us > 0)
                return;
        size->first_us = now;
        size->not_before_us = now + POOL_EARLY_MS * 1000;
}

/* A spare has ended lived_us after it was ready. */
static void size_note_death(struct pool_size *size, uint64_t now, uint64_t lived_us)
{
        uint64_t ms = POOL_SIZE_AGAIN_MS;

        size->deaths = lived_us > POOL_SIZE_LONG_LIFE_US ? 1 : size->deaths + 1;
        for (unsigned int i = 1; i < size->deaths && ms < POOL_SIZE_AGAIN_MAX_MS; i++)
                ms *= 2;
        size->not_before_us = now + ms * 1000;
}
/* ---- the spares ---- */

/* It exists, and a session may take it. */
static bool spare_is_ready(const struct spare *spare)
{
        return spare->state == SPARE_EARLY || spare->state == SPARE_READY;
}

/* The monitor has not answered yet. */
static bool spare_is_requested(const struct spare *spare)
{
        return spare->state == SPARE_COMING || spare->state == SPARE_DISCARDING;
}

static size_t n_profiles(const struct pool *p)
{
        size_t n = p->config->n_profiles;

        return n > 0 ? n : 1; /* the configs of some tests have none */
}

static const struct config_pool *settings_of(const struct pool *p, size_t profile)
{
        const struct config *config = p->config;

        return config->n_profiles > 0 ? &config->profiles[profile].pool : &config->top.pool;
}

static bool is_for(const struct spare *spare, size_t profile)
{
        return spare->profile == profile && (spare_is_ready(spare) || spare->state == SPARE_COMING);
}

static size_t count(const struct pool *p, enum spare_state state)
{
        const struct spare *spare;
        size_t n = 0;

        TAILQ_FOREACH (spare, &p->spares, link)
                n += spare->state == state;
        return n;
}

size_t pool_ready(const struct pool *p)
{
        return count(p, SPARE_EARLY) + count(p, SPARE_READY);
}

size_t pool_count(const struct pool *p)
{
        return count(p, SPARE_COMING) + pool_ready(p);
}

bool pool_makes_one(const struct pool *p)
{
        return count(p, SPARE_COMING) > 0;
}

size_t pool_ending(const struct pool *p)
{
        return count(p, SPARE_DISCARDING) + count(p, SPARE_ENDING);
}

static struct spare *spare_free(struct spare *spare)
{
        TAILQ_REMOVE(&spare->pool->spares, spare, link);
        loop_event_free(&spare->readable);
        fd_close_many(spare->fds, SESSION_FDS);
        free(spare);
        return NULL;
}

static size_t wanted(const struct pool *p, size_t profile)
{
        return size_wanted(&p->sizes[profile], settings_of(p, profile));
}

/* How many spares of a profile a principal has, the requested one and early ones included. */
static size_t spares_of(const struct pool *p, size_t profile, uint32_t principal)
{
        const struct spare *spare;
        size_t n = 0;

        TAILQ_FOREACH (spare, &p->spares, link)
                n += is_for(spare, profile) && spare->principal.id == principal;
        return n;
}

static struct pool_client *find_client(struct pool *p, size_t profile, uint32_t principal)
{
        for (size_t i = 0; i < p->n_clients; i++) {
                if (p->clients[i].profile == profile && p->clients[i].is.id == principal)
                        return &p->clients[i];
        }
        return NULL;
}

static bool is_recent(const struct pool_client *client, uint64_t now)
{
        return client && now < client->used_us + POOL_PERIOD_MS * UINT64_C(1000);
}

/* The principal that gets the next spare of a profile: one that has called in the last minute and has none (*lacks), otherwise
 * the one that called last; NULL: none has called. */
static const struct monitor_principal *next_principal(const struct pool *p, size_t profile,
                                                      bool *lacks)
{
        const struct pool_client *found = NULL;
        uint64_t now = clock_us();

        *lacks = false;
        for (size_t i = 0; i < p->n_clients; i++) {
                const struct pool_client *c = &p->clients[i];
                if (c->profile != profile)
                        continue;
                bool has_none = is_recent(c, now) && spares_of(p, profile, c->is.id) == 0;
                if (!found || has_none > *lacks ||
                    (has_none == *lacks && c->used_us > found->used_us))
                        found = c;
                *lacks |= has_none;
        }
        return found ? &found->is : NULL;
}

static size_t have(const struct pool *p, size_t profile)
{
        const struct spare *spare;
        size_t n = 0;

        TAILQ_FOREACH (spare, &p->spares, link)
                n += is_for(spare, profile) && spare->state != SPARE_EARLY;
        return n;
}

/* The config's limit for idle sessions holds for spares too. */
static void start_period(struct pool *p)
{
        uint64_t ms = p->config->session_idle_ms;
        struct timeval t = clock_timeval_ms((ms < POOL_PERIOD_MS ? ms : POOL_PERIOD_MS) /
                                            (PARTS - 1));

        if (!evtimer_pending(p->period, NULL))
                evtimer_add(p->period, &t);
}

/* ---- making one ---- */

/* The profile that lacks a spare and may get one first; *at: not before then. -1: none. */
static int next_profile(const struct pool *p, uint64_t *at)
{
        int found = -1;

        for (size_t i = 0; i < n_profiles(p); i++) {
                const struct pool_size *size = &p->sizes[i];
                size_t n = have(p, i);
                bool lacks, is_for_none = !next_principal(p, i, &lacks) && p->is_named;
                if (size->suspended || is_for_none ||
                    n >= (lacks ? settings_of(p, i)->max : wanted(p, i)) ||
                    (found >= 0 && size->not_before_us >= *at))
                        continue;
                found = (int)i;
                *at = size->not_before_us;
        }
        return found;
}

static bool has_place(const struct pool *p)
{
        return p->n_live + pool_count(p) + pool_ending(p) < p->sessions_max;
}

/* Whether a request is possible now. Whatever makes it possible calls request_soon(). Sandboxes that calls wait for are made first. */
static bool may_request(const struct pool *p)
{
        return p->n_waiting == 0 && count(p, SPARE_COMING) + count(p, SPARE_DISCARDING) == 0 &&
               has_place(p);
}

/* Why a profile has fewer spares than it should, once a minute. */
static void complain(struct pool_size *size, enum log_level level, const char *why)
{
        uint64_t now = clock_us();

        if (size->told_us > 0 && now < size->told_us + POOL_PERIOD_MS * UINT64_C(1000))
                return;
        size->told_us = now;
        log_write(level, "fewer ready sandboxes than wanted: %s", why);
}

/* Another one is wanted, and sessions have all places. */
static void complain_of_places(struct pool *p)
{
        uint64_t at;
        int profile = has_place(p) || p->n_waiting > 0 ? -1 : next_profile(p, &at);

        if (profile >= 0)
                complain(&p->sizes[profile], LOG_LEVEL_INFO,
                         "sessions have all places: raise \"sessions\"");
}

/* A call has waited for a sandbox, and more of them may come. */
static bool is_in_hurry(const struct pool *p, uint64_t now)
{
        return now < p->hurry_us;
}

static void set_timer(struct pool *p, uint64_t ms)
{
        struct timeval t = clock_timeval_ms(ms);

        evtimer_add(p->timer, &t);
}

static void request_soon(struct pool *p)
{
        uint64_t at = 0, now = clock_us();
        bool hurry = is_in_hurry(p, now);

        if (!p->expected || (evtimer_pending(p->timer, NULL) && !hurry))
                return;
        complain_of_places(p);
        if (!may_request(p) || next_profile(p, &at) < 0)
                return;
        uint64_t delay = at > now ? (at - now) / 1000 + 1 : 0;
        p->latest_us = now + (delay + POOL_PATIENCE_MS) * 1000;
        set_timer(p, delay > POOL_QUIET_MS || hurry ? delay : POOL_QUIET_MS);
}

static struct spare *spare_new(struct pool *p, size_t profile,
                               const struct monitor_principal *principal)
{
        struct spare *spare = calloc(1, sizeof(*spare));

        if (!spare)
                return NULL;
        *spare = (struct spare){.pool = p,
                                .state = SPARE_COMING,
                                .profile = profile,
                                .principal = principal ? *principal : (struct monitor_principal){},
                                .asked_us = clock_us()};
        for (size_t i = 0; i < SESSION_FDS; i++)
                spare->fds[i] = -1;
        TAILQ_INSERT_TAIL(&p->spares, spare, link);
        return spare;
}

static int request(struct pool *p, size_t profile)
{
        bool lacks;
        struct spare *spare = spare_new(p, profile, next_principal(p, profile, &lacks));

        if (!spare)
                return -ENOMEM;
        size_t own = 0;
        for (size_t i = 0; i < n_profiles(p); i++)
                own += spares_of(p, i, spare->principal.id);
        int r = sandbox_request_spare(&p->requests, profile, &spare->principal, pool_count(p), own,
                                      &spare->serial);
        if (r < 0)
                spare_free(spare);
        return r;
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        struct pool *p = data;
        uint64_t now = clock_us(), at = 0;

        if (!may_request(p))
                return;
        int profile = next_profile(p, &at);
        if (profile < 0)
                return;
        if (at > now)
                request_soon(p);
        else if (now < p->active_us + POOL_QUIET_MS * 1000 && now < p->latest_us &&
                 !is_in_hurry(p, now))
                set_timer(p, POOL_QUIET_MS);
        else if (request(p, (size_t)profile) < 0)
                p->sizes[profile].suspended = true;
}

void pool_set_sessions(struct pool *p, size_t n_live, size_t n_waiting)
{
        p->n_live = n_live;
        p->n_waiting = n_waiting;
        request_soon(p);
}

void pool_note_activity(struct pool *p, uint64_t now)
{
        p->active_us = now;
}

/* ---- ends ---- */

static void spare_end(struct spare *spare)
{
        struct pool *p = spare->pool;

        if (spare->state == SPARE_COMING) {
                spare->state = SPARE_DISCARDING;
                return;
        }
        if (spare->readable)
                event_del(spare->readable);
        spare->state = SPARE_ENDING;
        sandbox_request(&p->requests, MONITOR_SESSION_KILL, spare->target, 0);
}

/* The worker lives and has sent nothing. */
static bool is_silent(const struct spare *spare)
{
        char byte;

        return recv(spare->fds[SESSION_RPC], &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
               errno == EAGAIN;
}

static void note_death(const struct spare *spare)
{
        uint64_t now = clock_us();

        size_note_death(&spare->pool->sizes[spare->profile], now, now - spare->ready_us);
}

/* The worker has sent something, or its channel has ended. Neither may happen before the first
 * cell. */
static void on_readable(evutil_socket_t fd, short what, void *data)
{
        struct spare *spare = data;
        char byte;

        ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
                return;
        if (n > 0)
                log_warning("sandbox %u sent data before its first cell: it is ended",
                            spare->target);
        note_death(spare);
        spare_end(spare);
        request_soon(spare->pool);
}

bool pool_give_up(struct pool *p)
{
        struct spare *spare, *least = NULL;

        TAILQ_FOREACH (spare, &p->spares, link) {
                if (!is_for(spare, spare->profile))
                        continue;
                /* A ready one leaves its place sooner. Prefer a profile that is not expected. */
                if (!least || spare_is_ready(spare) > spare_is_ready(least) ||
                    (spare_is_ready(spare) == spare_is_ready(least) &&
                     p->sizes[least->profile].expected))
                        least = spare;
        }
        if (!least)
                return false;
        spare_end(least);
        return true;
}

/* Ends the spares of principals that have not called lately, and those above the number that is wanted now. */
static void trim(struct pool *p)
{
        uint64_t now = clock_us();
        struct spare *other, *after;

        for (other = TAILQ_FIRST(&p->spares); other && p->n_clients > 0; other = after) {
                after = TAILQ_NEXT(other, link);
                if (spare_is_ready(other) &&
                    !is_recent(find_client(p, other->profile, other->principal.id), now))
                        spare_end(other);
        }
        for (size_t i = 0; i < n_profiles(p); i++) {
                struct spare *spare, *next;
                size_t most = wanted(p, i), n = have(p, i);
                for (spare = TAILQ_FIRST(&p->spares); spare && n > most; spare = next) {
                        next = TAILQ_NEXT(spare, link);
                        uint32_t id = spare->principal.id;
                        if (!spare_is_ready(spare) || spare->profile != i ||
                            (is_recent(find_client(p, i, id), now) && spares_of(p, i, id) == 1))
                                continue;
                        log_debug("sandbox %u is not needed any more: it is ended", spare->target);
                        spare_end(spare);
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
                if (size_end_part(&p->sizes[i], now, p->make_us))
                        again = true;
        }
        trim(p);
        for (size_t i = 0; i < p->n_clients; i++)
                again |= is_recent(&p->clients[i], now);
        if (again)
                start_period(p);
        request_soon(p);
}

/* ---- the monitor's answers ---- */

/* A template continues to import for a moment after it is able to make sessions. A sandbox
 * made before that imports the rest itself, so later ones replace it. */
static void replace_early(struct pool *p, struct spare *made)
{
        struct pool_size *size = &p->sizes[made->profile];
        struct spare *spare, *next;
        bool early = size->first_us == 0 || made->ready_us < size->first_us + POOL_EARLY_MS * 1000;

        made->state = early ? SPARE_EARLY : SPARE_READY;
        size_note_first(size, made->ready_us);
        for (spare = TAILQ_FIRST(&p->spares); spare && !early; spare = next) {
                next = TAILQ_NEXT(spare, link);
                if (spare->state == SPARE_EARLY && spare->profile == made->profile)
                        spare_end(spare);
        }
}

static void note_duration(struct pool *p, const struct spare *spare)
{
        double us = (double)(spare->ready_us - spare->asked_us);

        us = us < MAKE_MIN_US ? MAKE_MIN_US : us > MAKE_MAX_US ? MAKE_MAX_US : us;
        p->make_us += (us - p->make_us) / 4;
}

static void take_made(struct spare *spare, const int fds[SESSION_FDS])
{
        struct pool *p = spare->pool;
        bool discard = spare->state == SPARE_DISCARDING;

        memcpy(spare->fds, fds, sizeof(spare->fds));
        spare->ready_us = clock_us();
        spare->state = SPARE_READY;
        spare->readable = event_new(p->base, fds[SESSION_RPC], EV_READ | EV_PERSIST, on_readable,
                                    spare);
        if (discard || !spare->readable || event_add(spare->readable, NULL) < 0)
                spare_end(spare);
        else
                replace_early(p, spare);
}

static struct spare *find_requested(struct pool *p, uint32_t serial)
{
        struct spare *spare;

        TAILQ_FOREACH (spare, &p->spares, link) {
                if (spare_is_requested(spare) && spare->serial == serial)
                        return spare;
        }
        return NULL;
}

bool pool_started(struct pool *p, uint32_t serial, uint32_t target, const int fds[SESSION_FDS])
{
        struct spare *spare = find_requested(p, serial);

        if (!spare)
                return false;
        spare->target = target;
        take_made(spare, fds);
        note_duration(p, spare);
        log_debug("sandbox %u is ready", target);
        request_soon(p);
        return true;
}

static void leave(struct spare *spare)
{
        struct pool *p = spare->pool;

        spare_free(spare);
        p->place_free(p->data);
        request_soon(p);
}

bool pool_failed(struct pool *p, uint32_t serial, const struct error *error)
{
        struct spare *spare = find_requested(p, serial);

        if (!spare)
                return false;
        struct pool_size *size = &p->sizes[spare->profile];
        if (error->code == EDQUOT && spare->state == SPARE_COMING) {
                size->not_before_us = clock_us() + BOUNDED_MS * 1000;
                complain(size, LOG_LEVEL_WARNING, error->text);
        } else if (error->code != ESTALE && spare->state == SPARE_COMING) {
                size->suspended = true;
                complain(size, LOG_LEVEL_ERROR, error->text);
        }
        leave(spare);
        return true;
}

bool pool_add(struct pool *p, size_t profile, const struct monitor_principal *principal,
              uint32_t target, const int fds[SESSION_FDS])
{
        if (!p->expected || have(p, profile) >= settings_of(p, profile)->max)
                return false;
        struct spare *spare = spare_new(p, profile, principal);
        if (!spare)
                return false;
        spare->target = target;
        take_made(spare, fds);
        log_debug("sandbox %u is ready: its call was cancelled", target);
        return true;
}

bool pool_ended(struct pool *p, uint32_t target)
{
        struct spare *spare;

        TAILQ_FOREACH (spare, &p->spares, link) {
                if (spare_is_requested(spare) || spare->target != target)
                        continue;
                if (spare_is_ready(spare)) {
                        log_info("sandbox %u, which was ready, has ended", target);
                        note_death(spare);
                }
                leave(spare);
                return true;
        }
        return false;
}

/* ---- taking one ---- */

void pool_expect(struct pool *p, size_t profile)
{
        struct pool_size *size = &p->sizes[profile];

        if (size->expected)
                return;
        size->expected = true;
        if (!p->expected) {
                p->expected = true;
                p->latest_us = clock_us();
                set_timer(p, POOL_FIRST_MS);
        }
        request_soon(p);
}

static enum sandbox_offer take(struct pool *p, size_t profile, uint32_t principal,
                               struct sandbox_offered *ret)
{
        struct spare *spare, *next;

        for (spare = TAILQ_FIRST(&p->spares); spare; spare = next) {
                next = TAILQ_NEXT(spare, link);
                if (!spare_is_ready(spare) || spare->profile != profile ||
                    spare->principal.id != principal)
                        continue;
                if (!is_silent(spare)) {
                        on_readable(spare->fds[SESSION_RPC], EV_READ, spare);
                        continue;
                }
                ret->target = spare->target;
                for (size_t i = 0; i < SESSION_FDS; i++)
                        ret->fds[i] = take_fd(spare->fds[i]);
                p->sizes[profile].deaths = 0;
                spare_free(spare);
                return SANDBOX_READY;
        }
        TAILQ_FOREACH (spare, &p->spares, link) {
                if (spare->state != SPARE_COMING || spare->profile != profile ||
                    spare->principal.id != principal)
                        continue;
                ret->serial = spare->serial;
                spare_free(spare);
                return SANDBOX_COMING;
        }
        return SANDBOX_NONE;
}

/* Ends a spare of a principal that has another one, or has not called lately, for one that has none. */
static void make_room(struct pool *p, size_t profile)
{
        struct spare *spare;
        bool lacks;

        (void)next_principal(p, profile, &lacks);
        if (!lacks || have(p, profile) < settings_of(p, profile)->max)
                return;
        TAILQ_FOREACH (spare, &p->spares, link) {
                uint32_t id = spare->principal.id;
                if (spare_is_ready(spare) && spare->profile == profile &&
                    (spares_of(p, profile, id) > 1 ||
                     !is_recent(find_client(p, profile, id), clock_us()))) {
                        spare_end(spare);
                        return;
                }
        }
}

void pool_note_call(struct pool *p, size_t profile, const struct monitor_principal *principal)
{
        struct pool_client *client = find_client(p, profile, principal->id);

        if (!client && p->n_clients < CLIENTS_MAX) {
                client = &p->clients[p->n_clients++];
        } else if (!client) {
                client = p->clients;
                for (size_t i = 1; i < CLIENTS_MAX; i++) {
                        if (p->clients[i].used_us < client->used_us)
                                client = &p->clients[i];
                }
        }
        *client = (struct pool_client){*principal, profile, clock_us()};
        make_room(p, profile);
        start_period(p);
        request_soon(p);
}

enum sandbox_offer pool_take(struct pool *p, size_t profile,
                             const struct monitor_principal *principal, struct sandbox_offered *ret)
{
        if (!p->expected)
                return SANDBOX_NONE;
        enum sandbox_offer offer = take(p, profile, principal->id, ret);
        uint64_t now = clock_us();
        size_note(&p->sizes[profile], now, p->make_us);
        start_period(p);
        if (offer == SANDBOX_READY)
                request_soon(p);
        else
                p->hurry_us = now + POOL_PATIENCE_MS * 1000;
        return offer;
}

void pool_note_made(struct pool *p, size_t profile)
{
        p->sizes[profile].suspended = false;
        size_note_first(&p->sizes[profile], clock_us());
}

void pool_require_names(struct pool *p)
{
        p->is_named = true;
}

/* ---- the config ---- */

/* A profile keeps its numbers under its name, but whether it is expected is decided again, and its
 * template may be another one. */
static void match_sizes(struct pool *p)
{
        const struct config *config = p->config;
        struct pool_size old[CONFIG_PROFILES_MAX];

        memcpy(old, p->sizes, sizeof(old));
        memset(p->sizes, 0, sizeof(p->sizes));
        for (size_t i = 0; i < config->n_profiles; i++) {
                struct pool_size *size = &p->sizes[i];
                for (size_t k = 0; k < CONFIG_PROFILES_MAX; k++) {
                        if (strcmp(old[k].name, config->profiles[i].name) == 0)
                                *size = old[k];
                }
                snprintf(size->name, sizeof(size->name), "%s", config->profiles[i].name);
                size->expected = size->suspended = false;
                size->first_us = 0;
        }
}

void pool_renew(struct pool *p, size_t profile)
{
        struct spare *spare;

        TAILQ_FOREACH (spare, &p->spares, link) {
                if (is_for(spare, profile))
                        spare_end(spare);
        }
}

void pool_reload(struct pool *p, const struct config *config, size_t sessions_max)
{
        struct spare *spare;

        TAILQ_FOREACH (spare, &p->spares, link) {
                if (is_for(spare, spare->profile))
                        spare_end(spare);
        }
        p->config = config;
        p->sessions_max = sessions_max;
        p->n_clients = 0;
        match_sizes(p);
}

int pool_new(struct pool **ret, struct event_base *base, const struct config *config,
             size_t sessions_max, const struct sandbox_requests *requests,
             void (*place_free)(void *data), void *data, struct error *err)
{
        struct pool *p = calloc(1, sizeof(*p));

        if (!p)
                return error_errno(err, ENOMEM, "pool");
        p->base = base;
        p->config = config;
        p->sessions_max = sessions_max;
        p->requests = *requests;
        p->place_free = place_free;
        p->data = data;
        p->make_us = MAKE_US;
        TAILQ_INIT(&p->spares);
        match_sizes(p);
        p->timer = evtimer_new(base, on_timer, p);
        p->period = evtimer_new(base, on_period, p);
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
        loop_event_free(&p->timer);
        loop_event_free(&p->period);
        free(p);
        return NULL;
}
