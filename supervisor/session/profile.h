/* The profile that a session's sandbox is made under. */
#pragma once

#include "supervisor/session/session-internal.h"

/* Chooses the profile for a sandbox that is about to be requested, and keeps a reference to the
 * newest config. Returns the index of the profile in it, or -ENOENT if the call named an unknown
 * one. / */
int session_profile_enter(struct session *session, struct error *err);
/* The sandbox has ended, or could not be made. */
void session_profile_leave(struct session *session);

/* Whether the next call names another profile than the sandbox has, and the error that it gets. */
bool session_profile_is_other(const struct session *session);
void session_profile_refusal(const struct session *session, char why[CELL_WHY_MAX]);
