/*
 * A reload that someone asks for: SIGHUP, or `cloister reload`.
 *
 * Theory of operation. The file of tokens is checked first, then the monitor reads the config, then the tokens are taken: if
 * either is invalid, nothing has changed. One reload runs at a time. Requests that arrive meanwhile become one more reload, which
 * begins RELOAD_GAP_MS after the last one at the earliest, so that signals without end do not keep the server busy.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "base/error.h"
#include "policy/config/config.h"

enum { RELOAD_GAP_MS = 100 };

struct reload;

struct reload_actions {
        /* Has the tokens read and checked. reload_checked() follows, maybe at once. */
        void (*check)(void *data);
        /* Has the monitor read the config. reload_read() follows; negative: the request was not sent. */
        int (*read)(void *data);
        /* Uses the tokens that were checked, or drops them. */
        void (*take)(void *data, bool use);
        /* The reload has ended. */
        void (*ended)(void *data);
};

/* Someone who waits for the end of a reload. Embedded; owned by the caller until done(). */
struct reload_waiter {
        TAILQ_ENTRY(reload_waiter) link;
        /* error: NULL: it was done; at_restart: the changed keys that count at a restart, or "". */
        void (*done)(struct reload_waiter *waiter, const struct error *error,
                     const char *at_restart);
};

/* actions: static. */
int reload_new(struct reload **ret, struct event_base *base, const struct reload_actions *actions,
               void *data, struct error *err);
/* Waiters are left without an answer. */
struct reload *reload_free(struct reload *reload);

/* waiter: or NULL. */
void reload_begin(struct reload *reload, struct reload_waiter *waiter);
void reload_forget(struct reload *reload, struct reload_waiter *waiter);

/* The results of the steps; error: NULL: it went well. */
void reload_checked(struct reload *reload, const struct error *error);
void reload_read(struct reload *reload, const struct error *error);
/* A config is invalid and not used: counts it, and writes an event. */
void reload_refused(const struct error *error);
/* Another config is in effect. */
void reload_note(struct reload *reload, const struct config *before, const struct config *now);
