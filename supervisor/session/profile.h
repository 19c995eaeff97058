/* The profile that a session's sandbox is made under. */
#pragma once

#include "supervisor/session/session-internal.h"

/* For a sandbox that is about to be asked for: holds the newest config. Returns the index of the
 * profile in it, or -ENOENT for one that the call named and that is not there. */
int session_profile_enter(struct session *session, struct error *err);
/* The sandbox is gone, or was not made. */
void session_profile_leave(struct session *session);

/* Whether the next call names another profile than that of the sandbox, and what it is told then.
 */
bool session_profile_is_other(const struct session *session);
void session_profile_refusal(const struct session *session, char why[CELL_WHY_MAX]);
