/*
 * Sandboxes that are ready and nobody's yet: a session that needs one takes it without a word to
 * the monitor.
 *
 * Theory of operation. A spare is a SESSION_CREATE that was answered and given to no session. The
 * first that a profile needs is asked for once somebody has said that its sessions are expected;
 * others when sessions of it are begun. Sandboxes are made one at a time, when nothing has happened
 * for a moment and no session waits for one of its own; a session that needs one meanwhile takes
 * over the request that is under way.
 *
 * How many: what would have been needed for no session of this period and the one before to wait
 * (demand.h), within the config's bounds. Without demand that falls back to the minimum, and to
 * nothing for a profile that is not expected.
 *
 * A spare counts as a live session until it has gone, and goes when a session needs its place. It
 * goes with the config that it was made under, once the monitor has told of another: until then a
 * session may take it, as one that waited for a sandbox of its own would just have got it. It has
 * nothing to say before its first cell: one that does, or dies, is replaced after a while, which
 * grows from time to time. Where a sandbox could not be made, none is asked for until a session has
 * got one.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/config.h"
#include "rpc/monitor-messages.h"

struct pool;
struct sessions;

enum {
        POOL_QUIET_MS = 5,      /* without a cell's begin or end before a sandbox is made … */
        POOL_PATIENCE_MS = 100, /* … but no longer than this */
        POOL_FIRST_MS = 60,     /* after pool_expect(): the client's first words go first */
        POOL_EARLY_MS = 250,    /* after a profile's first sandbox, no further one is made */
        POOL_PERIOD_MS = 60000, /* that demand is looked back at, twice */
};

int pool_new(struct pool **ret, struct sessions *set, struct error *err);
struct pool *pool_free(struct pool *pool);

/* Sessions of this profile of the newest config (its index) are to come. Nothing is made before the
 * first such call. */
void pool_expect(struct pool *pool, size_t profile);

/* A session begins under a profile of the newest config. */
enum pool_answer {
        POOL_NOTHING, /* it has to ask for a sandbox by itself */
        POOL_READY,   /* ret->target, ret->fds */
        POOL_COMING,  /* ret->serial: of a request under way, which is the session's from now on */
};
struct pool_taken {
        uint32_t serial, target;
        int fds[SESSION_FDS];
};
enum pool_answer pool_take(struct pool *pool, size_t profile, struct pool_taken *ret);

/* Spares that are there or coming; those that are on their way out; those that a session may take
 * now. Each of the first two has a place among the live sessions. */
size_t pool_count(const struct pool *pool);
size_t pool_ending(const struct pool *pool);
size_t pool_ready(const struct pool *pool);

/* Ends the spare that is needed least. False when there is none. sessions_room() follows when its
 * place is free. */
bool pool_give_up(struct pool *pool);

/* A sandbox of this profile could be made. */
void pool_note_made(struct pool *pool, size_t profile);

/* Something happened after which there may be something to make. */
void pool_look(struct pool *pool);

/* The newest config is another one. */
void pool_reload(struct pool *pool);

/* The monitor's events; false when they are not about a spare. fds are taken when they are. */
bool pool_started(struct pool *pool, uint32_t serial, uint32_t target, const int fds[SESSION_FDS]);
bool pool_failed(struct pool *pool, uint32_t serial, const struct error *error);
bool pool_ended(struct pool *pool, uint32_t target);
