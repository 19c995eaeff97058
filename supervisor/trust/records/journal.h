/*
 * The broker's end of the journal (docs/journal.md): the segment that records are written to, and cloister-journal
 * (rpc/journal-messages.h).
 *
 * A record is one line, written by one write(2), which survives the end of every process. The chain is here: number and hash of the
 * last record. cloister-journal checks and signs it, and opens the segments. While it does not run, it is started again: records
 * can still be written, but journal_ready() waits, so that no call is sent whose record would not be signed.
 *
 * A server has one journal, or none: the functions have no argument for it.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/error.h"
#include "base/json-out.h"
#include "policy/config/types.h"
#include "rpc/journal-messages.h"

enum { JOURNAL_WAIT_MS = 5000 };

/* start: requests the process; journal_started() follows. A call in doubt of a server that has ended: see journal-messages.h. */
struct journal_owner {
        void *data;
        int (*start)(void *data);
        void (*doubt)(void *data, const char *call, size_t n);
};
/* Makes the journal of the server; a second call does nothing. */
int journal_new(struct event_base *base, const struct journal_owner *owner, struct error *err);
/* Writes `end`, if there is a segment. Does nothing without a journal. */
void journal_free(void);
/* The server ends as if it had been killed: nothing more is recorded. The next server finds the calls without an answer, records them
 * as in doubt, and names them in the results of their sessions. Does nothing without a journal. */
void journal_abandon(void);
/* A profile of the config has a journal: the process is requested, if it was not yet. */
void journal_need(void);
/* The process's socket (owned from here on), or -1 and why there is none. */
void journal_started(int socket, const struct error *why);

/* Whether records are written: a segment has been opened. */
bool journal_is_open(void);

/* ---- waiting ---- */

/* The owner embeds it. done() is called once, from the event loop or by journal_free(), unless the wait is cancelled. err: NULL, or why nothing
 * may be sent. */
struct journal_wait {
        TAILQ_ENTRY(journal_wait) link;
        void (*done)(struct journal_wait *wait, const struct error *err);
        uint8_t list;    /* enum in journal.c; 0: it waits for nothing */
        uint32_t serial; /* of its JOURNAL_SYNC; 0: not sent yet */
        uint64_t until_ms;
};
TAILQ_HEAD(journal_waits, journal_wait);

/* Returns 1: a record may be written now; 0: done() follows, after JOURNAL_WAIT_MS at most; negative errno: it never may. */
int journal_ready(struct journal_wait *wait, struct error *err);
/* Waits until the records that were written are on the disk. Returns 1: `sync` is CONFIG_SYNC_NONE; 0: done() follows; negative errno. */
int journal_sync(struct journal_wait *wait, enum config_journal_sync sync, struct error *err);
void journal_cancel(struct journal_wait *wait);

/* ---- records ---- */

/* Begins a record in a buffer of the journal, which journal_end() writes; nothing else happens between them. NULL: there is no
 * segment. */
struct json_out *journal_begin(const char *kind);
/* *n: its number; may be NULL. Returns 0 or negative errno: nothing was written, and err has the path and the reason. */
int journal_end(uint64_t *n, struct error *err);
