/* The set of sessions, as its two files see it. */
#pragma once

#include <sys/queue.h>

#include "supervisor/session/machine/machine.h"
#include "supervisor/session/pool.h"
#include "supervisor/session/sandbox-check.h"
#include "supervisor/session/sessions.h"

enum { SESSIONS_BUCKETS = 2048 };

struct sessions {
        struct session_context context;
        TAILQ_HEAD(, session) list; /* the oldest first */
        struct session *buckets[SESSIONS_BUCKETS];
        struct session
                *numbers[SESSIONS_BUCKETS]; /* by the number that the monitor's messages have */
        size_t n, n_in[SESSION_STATE_MAX];  /* n_in: of those, how many are in a state */
        struct session *freeing;            /* ends to free memory for another principal, or NULL */
        struct event *freed;                /* FREEING_MS later */
        size_t n_yielding;                  /* of the live ones, end for another session */
        struct session_principals principals;
        struct pool *pool;
        const char *interrupts; /* why all cells were interrupted, or NULL */
        size_t n_killed;        /* of their sandboxes, or workers */
        bool servers_started;
        struct sandbox_check check;
};

static inline size_t sessions_n_live(const struct sessions *sessions)
{
        return sessions->n - sessions->n_in[SESSION_NONE];
}
