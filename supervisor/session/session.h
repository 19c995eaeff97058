/*
 * A session: a name, its sandbox while it has one, and a queue of cells that run one after another.
 *
 * A session outlives its sandbox, so that the next call can say what was lost and why. sessions.h
 * creates and finds sessions and passes the monitor's answers to them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json-out.h"
#include "supervisor/session/cell/cell.h"
#include "supervisor/session/machine/session-state.h"

struct session;
struct session_context;
struct session_principal;

/* principal: of the name, borrowed. */
int session_new(struct session **ret, const struct session_context *context, const char *name,
                struct session_principal *principal, struct error *err);
/* Frees waiting cells without calling their done(). */
struct session *session_free(struct session *session);

/* Ends the sandbox now, or as soon as it exists. restart: another sandbox is created then. why: for a person. */
void session_end_by_owner(struct session *session, bool restart, const char *why);
/* The config was reloaded: the session loses what its profile has lost. Ends a session with a mount or a network
 * that the profile lost. One whose profile was removed has no tools and reaches no host, until sessions_restrict() ends it. */
void session_take_rights(struct session *session);
/* Its principal may not use its profile any more: ends it, and the next sandbox is of the call's profile. */
void session_leave_forbidden_profile(struct session *session);

/* Its name may have been used on another node meanwhile (supervisor/service/lease.h): it never continues with what it has.
 * Ends an idle one now, and one that has cells before its next cell. */
void session_lose(struct session *session, const char *why);
/* A cell is about to be queued: ends what session_lose() has left. */
void session_end_lost(struct session *session);

/* Stops or resumes reading the session's output, for a reader that is slower than the code. */
void session_pause_output(struct session *session, bool paused);

/* ---- its description, for the MCP server and its owner ---- */

enum session_state session_state(const struct session *session);
bool session_has_cells(const struct session *session);
/* Whether it belongs to published code, and ends with its cell. */
bool session_is_single(const struct session *session);

/* The running cell of a session, for a call that cannot wait for it. */
enum { SESSION_LINE_MAX = 200 };
struct session_running {
        char code[CELL_EXCERPT_MAX + 1]; /* its first line, cut; "": no cell runs */
        uint64_t duration_us;
        char line[SESSION_LINE_MAX +
                  1]; /* the last that it has printed: of stdout, else of stderr; cut */
};
void session_describe_running(const struct session *session, struct session_running *ret);
/* Why the last sandbox ended, until the next call, or "". */
const char *session_lost(const struct session *session);

/* Writes a JSON object with the session's state (sessions_append_list()). */
void session_put_status(struct json_out *out, const struct session *session);

/* Appends the receipt of one of the last cells, as JSON (receipts.h). -ENOENT: there is none. */
int session_append_receipt(const struct session *session, uint64_t cell, struct buffer *to);
