/* Counts sessions and cells for the metrics (supervisor/service/metrics.h). */
#pragma once

#include "supervisor/session/machine/session-state.h"

struct cell;
struct session;

/* A session has changed its state: counts one that begins or ends. Call it before the figures of its principal change. */
void tally_session(struct session *session, enum session_state before);

/* A cell has ended. Counts those that a client or the owner has sent: not the parts of a branch, and not what reads the session. */
void tally_cell(const struct session *session, const struct cell *cell);
