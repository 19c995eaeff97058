/*
 * Spare sandboxes: ready, and not yet given to a session. A session that needs a sandbox takes one
 * without a request to the monitor.
 *
 * Theory of operation. To the monitor a spare is a session like any other. The first spare of a
 * profile is requested once its sessions are expected, more of them when sessions take spares. The
 * pool requests one sandbox at a time, when no session waits for one and no cell has started or
 * ended for a moment. The second does not hold in a burst: for a moment after a session had to wait
 * the next request is sent as soon as the last one is answered. A session that needs a sandbox
 * meanwhile takes over the pending request. A sandbox whose call was cancelled before a session got
 * it becomes a spare.
 *
 * The number of spares is the number with which no session of the last minute would have waited,
 * within the limits of the config and of what the monitor allows (EDQUOT). Without sessions it falls
 * to the minimum, or to none if the profile's sessions are not expected.
 *
 * A spare is made for one principal, in whose control group it is, and no other one gets it.
 *
 * A spare takes a place among the live sessions until the monitor has reported its end; it is ended
 * when a session needs the place. A reload of the config ends all spares. A spare whose worker
 * sends something or ends is replaced after a delay that grows each time.
 * After a failed request the pool requests no sandbox of that profile until a session has got one,
 * or for a few seconds if only memory is lacking. The reason is logged once a minute.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/config/config.h"
#include "rpc/monitor-messages.h"
#include "supervisor/session/machine/sandbox-requests.h"

struct pool;

enum {
        POOL_QUIET_MS = 5, /* a sandbox is requested when no cell has started or ended for this … */
        POOL_PATIENCE_MS = 100, /* … but the request is delayed no longer than this */
        POOL_FIRST_MS = 60, /* after pool_expect(), so that the client's first requests go first */
        POOL_SIZE_AGAIN_MS =
                250, /* delay after the end of a spare, doubled with each one in a row */
        POOL_SIZE_AGAIN_MAX_MS = 64000,
        POOL_EARLY_MS = 250, /* after a profile's first sandbox, no further one is requested */
        POOL_SIZE_LONG_LIFE_US = 60000000, /* a spare that lived longer begins a new row */
        POOL_PERIOD_MS = 60000,            /* the number of spares follows the last period */
};

/* config is borrowed until pool_reload() or pool_free(). place_free: a spare has ended, and a session may have its place. */
int pool_new(struct pool **ret, struct event_base *base, const struct config *config,
             size_t sessions_max, const struct sandbox_requests *requests,
             void (*place_free)(void *data), void *data, struct error *err);
struct pool *pool_free(struct pool *pool);

/* Another config is valid from now on. */
void pool_reload(struct pool *pool, const struct config *config, size_t sessions_max);

/* Ends the spares of a profile: what they need has ended, and sandboxes that are requested later have it. */
void pool_renew(struct pool *pool, size_t profile);

/* How many sessions are live, and how many of them wait for a sandbox. */
void pool_set_sessions(struct pool *pool, size_t n_live, size_t n_waiting);

/* A cell was queued, started or ended at this time. */
void pool_note_activity(struct pool *pool, uint64_t now_us);

/* Sessions with this profile (its index in the config) are expected. The pool requests nothing
 * before the first such call. */
void pool_expect(struct pool *pool, size_t profile);

/* Takes a spare of this principal, or the pending request, for a session with this profile. */
enum sandbox_offer pool_take(struct pool *pool, size_t profile,
                             const struct monitor_principal *principal,
                             struct sandbox_offered *ret);

/* A session of this principal has begun a cell: one spare at least is kept for it for a minute, if the profile's maximum
 * allows. */
void pool_note_call(struct pool *pool, size_t profile, const struct monitor_principal *principal);

/* All calls are of principals with names: a spare is made once one of them has called. */
void pool_require_names(struct pool *pool);

/* How many spares exist or are requested; are being ended; exist. Each of the first two takes a
 * place among the live sessions. */
size_t pool_count(const struct pool *pool);
size_t pool_ending(const struct pool *pool);
size_t pool_ready(const struct pool *pool);

/* Whether one is being made. Less urgent work, such as a copy of a session's state, waits for it. */
bool pool_makes_one(const struct pool *pool);

/* Ends the spare that is needed least; place_free() follows. False if there is none. */
bool pool_give_up(struct pool *pool);

/* A sandbox that was made for a session that needs none any more. False: the pool does not need it, and the
 * caller keeps it; otherwise fds are owned by the pool. */
bool pool_add(struct pool *pool, size_t profile, const struct monitor_principal *principal,
              uint32_t target, const int fds[SESSION_FDS]);

/* A session has got a sandbox with this profile from the monitor. */
void pool_note_made(struct pool *pool, size_t profile);

/* The monitor's answers; false if they are not about a spare. fds are owned by the pool then. */
bool pool_started(struct pool *pool, uint32_t serial, uint32_t target, const int fds[SESSION_FDS]);
bool pool_failed(struct pool *pool, uint32_t serial, const struct error *error);
bool pool_ended(struct pool *pool, uint32_t target);
