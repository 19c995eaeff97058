/*
 * An idle session that its profile lets freeze ("freeze"): all its processes stop where they are
 * until it is needed. Its timer goes off for that first, and for its end after that.
 *
 * Requests reach the monitor in their order, so that nobody waits for a thaw: what is sent to the
 * worker is read once it goes on.
 */
#pragma once

#include <stdbool.h>

#include "supervisor/session/session.h"

/* The timer of a session that is idle. */
void freeze_arm(struct session *session);

/* The timer went off: whether it was for this. A session that reads a file for somebody, or has
 * a tool call under way, is not idle enough. */
bool freeze_begin(struct session *session);
void freeze_done(struct session *session); /* the monitor's word */

/* It is needed. One that stays idle is frozen again. */
void freeze_end(struct session *session);
