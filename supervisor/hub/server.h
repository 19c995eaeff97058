/*
 * One server of the user's, reached over the pipes of a process: a state machine that starts it,
 * shakes hands, learns its tools and carries calls. Private to the hub.
 *
 *     STOPPED ──start──► STARTING ──pipes──► PROBING ──legacy──► INITIALIZING
 *        ▲                  │                   │                    │
 *        │                  │                modern ─► LISTING ◄── result
 *        │                  │                             │ last page
 *        │                  │                             ▼
 *        └─ its end is known ── ENDING ◄── end of its ── READY
 *                           │              output
 *                           └── error, end, deadline before READY: FAILED
 *
 * A call waits in every state but READY and FAILED, and makes a STOPPED server start; a FAILED one
 * is tried again when its delay is over. Nothing is sent twice.
 *
 * Everything that a server can make grow is bounded here: a message (LINES_MOST), what waits to be
 * sent, what it says on stderr, how much of it we look at in a while, its tools, its pages, calls
 * in flight.
 */
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/buffer.h"
#include "base/error.h"
#include "policy/config.h"
#include "rpc/jsonrpc.h"
#include "rpc/lines.h"
#include "supervisor/hub/era.h"
#include "supervisor/hub/hub.h"
#include "supervisor/hub/rate.h"
#include "supervisor/hub/tools.h"

enum {
        HUB_START_MS =
                30000, /* from the wish to the answer to initialize: npx may have to download */
        HUB_LIST_MS = 30000,     /* for all pages of tools/list */
        HUB_PROBE_MS = 3000,     /* for the answer to server/discover, before initialize is tried */
        HUB_RELISTEN_MS = 5000,  /* from the end of a subscription to the next */
        HUB_TTL_LEAST_MS = 5000, /* however short a list says that it holds */
        HUB_TTL_MOST_MS = 24 * 3600 * 1000,
        HUB_CALL_MS = 60000, /* where the config says nothing */
        HUB_END_MS = 2000,   /* from the end of its output to its own */
        HUB_DRAIN_MS = 500,  /* from its end to the end of its output */
        HUB_RELIST_MS =
                100, /* from the first list_changed to asking again; servers send them in bursts */
        HUB_RELIST_MAX_MS = 10000,
        HUB_PAUSE_MS = 100, /* what a server that floods has to wait */

        HUB_QUEUE_MAX = 64 * 1024 *
                        1024,  /* bytes that wait to be sent, but for one single message */
        HUB_CALLS_MAX = 65536, /* in flight */
        HUB_PAGES_MAX = 1000,
        HUB_STDERR_LINE_MAX = 1024,
        HUB_FREE_FAILURES = 3, /* starts in a row that may fail before there is a delay */
        HUB_DELAY_MAX_MS = 60000,
        HUB_RETRY_UNASKED_MS =
                10000, /* before a failed server is tried again without a call for it */
};

enum server_state {
        SERVER_STOPPED,
        SERVER_STARTING,     /* the monitor was asked */
        SERVER_PROBING,      /* server/discover is sent */
        SERVER_INITIALIZING, /* initialize is sent */
        SERVER_LISTING,      /* tools/list is sent for the first time */
        SERVER_READY,
        SERVER_ENDING, /* was READY; its output or the process has ended, the rest is awaited */
        SERVER_FAILED,
        SERVER_STATE_MAX,
};

TAILQ_HEAD(hub_call_list, hub_call);

enum { CALL_BUCKETS = 256 };

/* A list of tools on its way, page by page. */
struct listing {
        struct hub_tools *tools; /* NULL: none is on its way */
        char *cursor;            /* of the page that was asked for last */
        unsigned pages;
        uint64_t since;
        uint64_t took;  /* the last whole one, in us: asking again waits ten times as long */
        bool again;     /* list_changed came meanwhile */
        int64_t ttl_ms; /* the least that a page of this one says; -1: none does */
};

struct hub_server {
        struct hub *hub;
        const struct config_server *config;
        uint32_t index;
        enum server_state state;
        struct error error; /* FAILED: why */

        uint32_t instance;
        bool has_instance; /* the monitor runs it for us, as far as we know */
        bool has_ended;
        int wait_status;
        unsigned failures; /* starts in a row */
        uint64_t failed_at, retry_at;

        int fds[3]; /* its stdin, stdout, stderr; -1 when closed */
        struct event readable, log_readable, writable;
        struct event deadline; /* of the state */
        struct event pause;    /* after a flood */
        struct event relist;
        struct event probe;    /* the end of the wait for server/discover */
        struct event relisten; /* a subscription that has ended is asked for again */
        uint64_t start_by;     /* when it has to be READY, however often it is started for it */
        bool has_events;       /* the three on descriptors are assigned */
        struct lines lines, log_lines;
        struct buffer queue; /* to be written */
        struct rate junk_lines, junk_bytes, log_bytes, log_rate, warn_rate;
        char last_words[240]; /* of its stderr */
        bool last_words_tell; /* they look like an error */

        enum hub_era era;     /* as known from this process or an earlier one */
        enum hub_era speaks;  /* this process: UNKNOWN until it has said so */
        bool is_probed;       /* this process was asked server/discover */
        bool skips_probe;     /* the next one is not asked: this one ended over it */
        bool listens;         /* it will say when its tools change */
        int64_t discover_id;  /* server/discover on its way; 0: none */
        int64_t listen_id;    /* subscriptions/listen, as long as it is open; 0: none */
        uint64_t fresh_until; /* the tools need not be asked for again before; 0: ever */

        int64_t last_id;    /* of a request */
        int64_t request_id; /* initialize or tools/list on its way; 0: none */
        struct listing listing;
        struct hub_tools *tools; /* as known, maybe from the cache; NULL: not known */
        char *instructions;

        struct hub_call_list waiting;            /* not sent yet, in order */
        struct hub_call_list sent[CALL_BUCKETS]; /* by id */
        size_t n_calls;
        size_t waiting_bytes;
};

const char *server_state_name(enum server_state state);

/* With the tools that the cache knows. NULL: no memory. */
struct hub_server *hub_server_new(struct hub *hub, uint32_t index,
                                  const struct config_server *config);
/* Its calls are forgotten, not told. */
struct hub_server *hub_server_free(struct hub_server *s);

/* Why it can never be used, by its config; NULL when it can. */
const char *hub_server_unusable(const struct hub_server *s);
bool hub_server_is_starting(const struct hub_server *s);
/* It runs, or ran, but one of its pipes has ended or it has: only the rest of its output is
 * awaited. */
bool hub_server_is_over(const struct hub_server *s);

/* Asks the monitor for it, from STOPPED or FAILED. */
void hub_server_start(struct hub_server *s);
/* Ends the process, which `why` (a predicate) says is of no use, and asks for another; the time to
 * start goes on, and the calls wait. */
void hub_server_restart(struct hub_server *s, const char *why);

/* The monitor's answers. _started() returns whether the server was wanted; if so the descriptors
 * are its. */
bool hub_server_started(struct hub_server *s, uint32_t instance, const int fds[3]);
void hub_server_ended(struct hub_server *s, int wait_status);

/* Ends it as FAILED with what err says; all its calls fail. */
void hub_server_fail(struct hub_server *s, const struct error *err);
void hub_server_failf(struct hub_server *s, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

/* Ends it for good, whatever it is doing: its calls fail, saying what it was (a predicate). */
void hub_server_retire(struct hub_server *s, const char *why);
/* Its index has changed: a start that is under way has to be asked for by the new one. */
void hub_server_ask_again(struct hub_server *s);

/* One of its pipes has ended or broken. */
void hub_server_cut(struct hub_server *s);

/* The first whole list of tools is there. */
void hub_server_ready(struct hub_server *s);
/* initialize is on its way. */
void hub_server_initializing(struct hub_server *s);
/* tools/list is on its way; the time it may take runs from now. */
void hub_server_listing(struct hub_server *s);
/* No answer is awaited any more. */
void hub_server_no_deadline(struct hub_server *s);

/* server-io.c: the pipes. */
void hub_server_assign(struct hub_server *s);
void hub_server_open(struct hub_server *s, const int fds[3]);
void hub_server_close(struct hub_server *s);
/* Has what was appended to the queue written. */
void hub_server_sent(struct hub_server *s);
/* A request says what a modern server has to know of us. Return 0, -EMSGSIZE (too much is waiting),
 * -EPIPE, -ENOMEM, -EINVAL. */
int hub_server_request(struct hub_server *s, int64_t id, const char *method, const char *params,
                       size_t n);
int hub_server_notify(struct hub_server *s, const char *method, const char *params, size_t n);
/* Reads what its stderr holds now. */
void hub_server_drain_log(struct hub_server *s);
/* Whether one more warning about it is due; a server must not fill the log. */
bool hub_server_may_warn(struct hub_server *s);

/* server-message.c: what a line means. Returns whether it was one that we waited for. */
bool hub_server_message(struct hub_server *s, const char *line, size_t n);

/* Where to cut a text of UTF-8 so that at most `most` bytes and no half character remain. */
size_t hub_cut_point(const char *text, size_t n, size_t most);

/* handshake.c: which era it speaks. */
void hub_handshake_begin(struct hub_server *s);
void hub_handshake_drop(struct hub_server *s);
/* Takes an answer that is the handshake's. Returns whether it was one. */
bool hub_handshake_answer(struct hub_server *s, const struct jsonrpc_message *m);
/* The same for one that is no message. */
bool hub_handshake_spoiled(struct hub_server *s, yyjson_val *id);
/* The process ended before it was LISTING. Returns whether another one, which is not asked
 * server/discover, may do better. */
bool hub_handshake_ended(struct hub_server *s);
/* Its time to start is over. */
void hub_handshake_expired(struct hub_server *s);
void hub_handshake_on_changed(struct hub_server *s, const struct jsonrpc_message *m);
void hub_handshake_on_acknowledged(struct hub_server *s, const struct jsonrpc_message *m);
void hub_handshake_on_cancelled(struct hub_server *s, const struct jsonrpc_message *m);
void hub_handshake_on_probe(evutil_socket_t fd, short what, void *data);
void hub_handshake_on_relisten(evutil_socket_t fd, short what, void *data);

/* server-list.c: tools/list. */
void hub_server_list(struct hub_server *s);
void hub_server_list_answer(struct hub_server *s, const struct jsonrpc_message *answer);
void hub_server_list_changed(struct hub_server *s);
/* The tools are about to be used: asks for them again where the server said how long they hold, and
 * that is over. */
void hub_server_list_used(struct hub_server *s);
void hub_server_list_expired(struct hub_server *s);
void hub_server_on_relist(evutil_socket_t fd, short what, void *data);
void hub_server_list_drop(struct hub_server *s);
