/*
 * Events: the record of what a server has done, for its operator, in the log at level info.
 *
 * The caller gives the facts; this file alone decides their form: names of members, the part of the code, the length of
 * a list. base/log.h writes them, as JSON, for journald, or as a line for people. A begin of a cell without its end is a cell
 * in doubt: the server was killed while it ran.
 *
 * Where nothing is logged at info, a function returns at once. Facts that cost something to gather: ask event_is_on().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/log.h"
#include "policy/config/types.h"

bool event_is_on(bool is_journalled);
/* Where events go besides: to the journal of a server that has one (supervisor/trust/records/record.h). Events of the server as a whole do, and
 * those of cells and sessions with is_journalled. NULL: nowhere. */
typedef void event_sink(const struct log_ids *ids, const struct log_record *record);
void event_set_sink(event_sink *sink);
/* The part of the code of a cell that events have (the key "log_code"). */
void event_set_code(enum config_log_code code);

/* A cell is about to be sent to its sandbox. */
struct event_cell_begin {
        struct log_ids ids;
        const char *code;
        size_t code_length;
        const char *profile; /* or "" */
        bool is_journalled;
        unsigned attempt; /* from 1: the sandboxes before had ended before they had read it */
};
void event_cell_begin(const struct event_cell_begin *event);

/* A call of a tool that the cell made and that was sent. */
struct event_tool {
        const char *server, *tool;
        bool ok;
        uint64_t duration_us;
};

/* A cell that had begun has ended. */
struct event_cell_end {
        struct log_ids ids;
        const char *status, *state; /* as in its result */
        const char *why;            /* it did not end normally, or "" */
        uint64_t duration_us, cpu_us;
        uint64_t memory_peak;           /* bytes; 0: unknown */
        const struct event_tool *tools; /* the first of them, as many as are known */
        size_t n_tools;
        uint64_t tools_total;
        const struct buffer *receipt; /* for the journal: JSON, or NULL */
        bool is_journalled;
};
void event_cell_end(const struct event_cell_end *event);

/* A session has got its sandbox, or has lost it. */
struct event_session {
        struct log_ids ids;
        uint32_t sandbox;
        const char *profile; /* or "" */
        const char *reason;  /* of the end, one word */
        const char *why;     /* of the end, or "" */
        bool is_journalled;
};
void event_session_start(const struct event_session *event);
void event_session_end(const struct event_session *event);

/* A request without a valid token was refused. At most EVENT_REFUSED_BURST of them become events at once, and then one for each
 * EVENT_REFUSED_MS; the next event has the number of those that were left out. */
enum { EVENT_REFUSED_BURST = 50, EVENT_REFUSED_MS = 200 };
struct event_token_refused {
        bool is_missing; /* no token was sent */
        int status;      /* of the response */
};
void event_token_refused(const struct event_token_refused *event);

/* Configs or tokens were read again. */
struct event_reload {
        const char *what; /* "config" or "tokens" */
        bool ok;
        const char *why; /* not ok: one clause, or "" */
};
void event_reload(const struct event_reload *event);

/* The server stops taking work. */
struct event_drain {
        const char *phase;    /* "begin", "cancel", "stop" or "end" */
        uint64_t deadline_ms; /* from now; 0: none */
        uint64_t sessions;    /* live ones */
        uint64_t cells;       /* that run */
        const char *why;      /* what started it */
};
void event_drain(const struct event_drain *event);

/* A command of the server's owner, over the control socket. */
struct event_owner {
        struct log_ids ids;  /* of the session that it names */
        const char *command; /* its method */
        bool ok;
        const char *why; /* not ok */
};
void event_owner(const struct event_owner *event);
