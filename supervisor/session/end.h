/* The end of a session's sandbox. */
#pragma once

#include "supervisor/session/machine/machine.h"

/* Drops all that belongs to the sandbox; the state is SESSION_NONE then. */
void session_forget_sandbox(struct session *session);

/* Actions: the monitor has reported the end. */
void session_finish(struct session *session, const struct session_details *details);
/* The worker may have sent frames before it ended: they are handled first. */
void session_drain_and_finish(struct session *session, const struct session_details *details);
