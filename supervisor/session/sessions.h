/*
 * All sessions of one client, by name.
 *
 * Names are made by use. Sandboxes are bounded (monitor_hello.sessions_max), idle ones are dropped,
 * and what was lost is remembered for a bounded number of names.
 */
#pragma once

#include <event2/event.h>
#include <stdint.h>

#include "policy/config.h"
#include "rpc/monitor-messages.h"
#include "supervisor/session/pool.h"
#include "supervisor/session/session-name.h"
#include "supervisor/session/session.h"
#include "supervisor/session/tool-provider.h"

/* What the sessions need of the link to the monitor; the answers come by sessions_started() and its
 * kin. */
struct sessions_host {
        void *data;
        /* Asks for a sandbox of this profile of the newest config. Returns 0 with the serial of the
         * request, or negative errno. */
        int (*create)(void *data, uint32_t profile, uint32_t *serial);
        void (*interrupt)(void *data, uint32_t target);
        void (*kill)(void *data, uint32_t target);
        /* Or to go on. Where it cannot be done, it goes on as it was. */
        void (*freeze)(void *data, uint32_t target, bool frozen);
};

enum { SESSIONS_BUCKETS = 2048 };

struct sessions {
        struct event_base *base;
        struct config *config; /* what sessions made from now on get */
        struct monitor_hello hello;
        struct tool_provider tools;
        struct sessions_host host;
        struct session *first, **end;              /* the oldest first */
        struct session *buckets[SESSIONS_BUCKETS]; /* the same by name */
        struct pool *pool;
        size_t n_live;                 /* with a sandbox, or asking for one */
        size_t n_creating, n_awaiting; /* asking for one; waiting for a spare's place */
        size_t n;
        uint64_t active_us; /* when a cell last came, began or ended */
        bool servers_started;
};

int sessions_new(struct sessions **ret, struct event_base *base, struct config *config,
                 const struct monitor_hello *hello, const struct tool_provider *tools,
                 const struct sessions_host *host, struct error *err);
/* Frees without calling anybody: cells that wait are gone. */
struct sessions *sessions_free(struct sessions *sessions);

/* Queues a cell in the session of this name, which is made when there is none. *ret is valid until
 * done(). */
int sessions_run(struct sessions *sessions, const char *name, const struct cell_request *request,
                 struct cell **ret, struct error *err);

/* The monitor's events. A failure with ESTALE is of a config that was reloaded meanwhile: the
 * sandbox is asked for again. A serial or target of nobody's is -ENOENT; fds are taken in any case.
 */
int sessions_started(struct sessions *sessions, uint32_t serial, uint32_t target,
                     const int fds[SESSION_FDS]);
int sessions_failed(struct sessions *sessions, uint32_t serial, const struct error *error);
int sessions_ended(struct sessions *sessions, uint32_t target, const struct monitor_ended *ended);
void sessions_frozen(struct sessions *sessions, uint32_t target);

/* There is another config from now on. Sessions that have a sandbox keep it. */
void sessions_reload(struct sessions *sessions, struct config *config,
                     const struct monitor_hello *hello);

/* Sessions of this profile of the newest config (NULL: a config without any) are to come: from the
 * first such call on sandboxes are kept ready for them. */
void sessions_expect(struct sessions *sessions, const struct config_profile *profile);

/* A place among the live ones, for a session: 1; 0 when a spare is about to leave one, and
 * sessions_room() follows; -EBUSY. */
int sessions_find_room(struct sessions *sessions, struct error *err);
/* The pool's: a place among the live ones is free. */
void sessions_room(struct sessions *sessions);

/* The catalogue of tools has changed. */
void sessions_catalogue_changed(struct sessions *sessions);
