/* Describes a session to the MCP server and to its owner. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json-out.h"
#include "supervisor/session/cell/cell.h"
#include "supervisor/session/machine/session-state.h"

struct session;

const char *session_name(const struct session *session);
enum session_state session_state(const struct session *session);
bool session_has_cells(const struct session *session);
bool session_is_full(const struct session *session); /* SESSION_CELLS_MAX cells wait */
/* Whether it belongs to published code, and ends with its cell. */
bool session_is_single(const struct session *session);
/* Whether the answer to the request with this serial is for this session. */
bool session_awaits(const struct session *session, uint32_t serial);
/* Whether its sandbox has this number. */
bool session_has_target(const struct session *session, uint32_t target);

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
