/* What the files of the pool share. */
#pragma once

#include <sys/queue.h>

#include "supervisor/session/pool-size.h"
#include "supervisor/session/pool.h"

enum spare_state {
        SPARE_COMING,     /* requested */
        SPARE_DISCARDING, /* requested; killed as soon as it exists */
        SPARE_EARLY,      /* ready, but its template had not imported everything */
        SPARE_READY,
        SPARE_ENDING, /* the monitor was asked to kill it */
};

struct spare {
        TAILQ_ENTRY(spare) link;
        struct pool *pool;
        enum spare_state state;
        uint32_t serial, target;
        size_t profile;
        int fds[SESSION_FDS];
        struct event *readable;
        uint64_t asked_us, ready_us;
};

struct pool {
        struct event_base *base;
        const struct config *config; /* borrowed; of all spares that are not to be ended */
        struct sandbox_requests requests;
        struct pool_owner owner;
        size_t n_live, n_waiting, sessions_max; /* sessions */
        uint64_t active_us;                     /* a cell was last queued, started or ended */

        bool expected; /* sessions of some profile are */
        TAILQ_HEAD(, spare) spares;
        struct pool_size sizes[CONFIG_PROFILES_MAX];
        double make_us; /* mean time in which a sandbox is made */
        struct event *timer, *period;
        uint64_t latest_us; /* a request is delayed until then at most */
};

/* It exists, and a session may take it. */
static inline bool spare_is_ready(const struct spare *spare)
{
        return spare->state == SPARE_EARLY || spare->state == SPARE_READY;
}

/* The monitor has not answered yet. */
static inline bool spare_is_requested(const struct spare *spare)
{
        return spare->state == SPARE_COMING || spare->state == SPARE_DISCARDING;
}

/* Takes it out of the pool, with its descriptors. */
struct spare *spare_free(struct spare *spare);
/* Has the monitor kill it: its place is free once the monitor has reported its end. */
void spare_end(struct spare *spare);
/* It died, or was ended for what it sent: the next one of its profile comes later. */
void spare_note_death(const struct spare *spare);
/* Its channel is readable: an event's callback, with the spare as data. */
void spare_on_readable(evutil_socket_t fd, short what, void *data);

/* Requests a sandbox from a timer, if one is wanted. */
void pool_request_soon(struct pool *p);
