/*
 * The principals whose sessions exist (session-name.h), and what each has of the things that all of them use.
 *
 * Each principal with access has a right to its first few places for sandboxes: PRINCIPAL_PLACES, or an even part of all
 * places if that is less, but at least one. No other principal takes these. Above its right it may have whatever is left.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "rpc/monitor-messages.h"
#include "supervisor/session/cell/session-name.h"
#include "supervisor/session/machine/call-counts.h"
#include "supervisor/session/machine/sandbox-requests.h"

enum {
        PRINCIPAL_PLACES = 4,
        PRINCIPAL_QUIET_MS = 200,
        PRINCIPAL_KEEPING = 4,    /* copies that are made at once, unless they are late */
        PRINCIPAL_LATE_MS = 2000, /* own calls delay the copy of a cell until then */
        PRINCIPAL_OTHERS_MS =
                250, /* those of others, and ready sandboxes that are made: 200 after the time at which it is due */
};

struct pool;

struct session_principal {
        LIST_ENTRY(session_principal) link;
        struct session_principals *all;
        char key[SESSION_NAME_MAX + 1];
        uint64_t number; /* which no other one had; 0: it has no name */
        size_t n_names;  /* of sessions, with those that have no sandbox */
        size_t n_live; /* of them have a sandbox or wait for one, and do not give up their place */
        size_t n_creating;       /* of these wait for the monitor */
        size_t n_searches;       /* calls.c: searches of its sessions */
        struct call_counts sent; /* calls that rules with "after" count */
        size_t call_bytes;       /* of their calls of tools, with CALL_BYTES for each */
        uint64_t picture_turn; /* of the provider of checks of pictures: when it had the last one */
        size_t n_calls;        /* cells and questions for files that have not ended */
        size_t n_keeping;      /* of its sessions: SESSION_KEEPING */
        size_t n_resting;      /* of its sessions: SESSION_REST was sent */
        uint32_t rests;        /* the id of which PRINCIPAL_REST was sent; 0: none */
        uint64_t quiet_us;     /* it may rest from then on */
        struct event *quiet;
};

struct session_principals {
        LIST_HEAD(, session_principal) list;
        uint64_t last_number;
        size_t call_bytes; /* of all */
        size_t n_calls;    /* of all */
        size_t n;          /* how many have access, whether they have sessions or not */
        /* Fills in all except `of`, unless it does not know the key. NULL: there is one principal. */
        void (*sums)(const void *data, const char *key, struct monitor_principal *ret);
        const void *data;
        struct event_base *base;
        const struct sandbox_requests *requests;
        /* Whether a ready sandbox is being made. NULL: there are none. */
        bool (*makes_spare)(const struct pool *pool);
        const struct pool *pool;
};

/* As the monitor is told of it. */
struct monitor_principal principal_sums(const struct session_principals *all,
                                        const struct session_principal *principal);

/* Returns the principal of a session's key, with one more name; NULL when out of memory. */
struct session_principal *principal_ref(struct session_principals *all, const char *session_key);
/* One name less; without one it is freed. NULL is allowed. */
void principal_unref(struct session_principal *principal);
/* The principal of this name ("": the one without), or NULL. */
struct session_principal *principal_find(const struct session_principals *all, const char *name,
                                         size_t n);

/* Counts calls that begin or end, and sessions that begin or end to be at rest. A principal with sessions at rest and without a
 * call is at rest itself, PRINCIPAL_QUIET_MS after the last one: the copy of its state is made by then, and a series of calls
 * sends no message for each. Work of a session without a call does not count: code can make its interpreter end, and be restored. */
void principal_count(struct session_principal *principal, int calls, int resting);

/* Whether work for which no call waits, such as the copy of a state, may begin: no call has to wait for it, or the cell ended too
 * long ago. passed_ms: since the end of the cell. */
bool principal_is_quiet(const struct session_principal *principal, uint64_t passed_ms);

/* The number of places to which each principal has a right. */
size_t principals_right(const struct session_principals *all, size_t places);
/* How many more places the others have a right to; 0 for a principal that is below its own right. */
size_t principals_reserved(const struct session_principals *all,
                           const struct session_principal *principal, size_t places);
