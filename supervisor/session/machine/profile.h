/* The profile that a session's sandbox is made under. */
#pragma once

#include "supervisor/session/machine/machine.h"

/* Chooses the profile for a sandbox that is about to be requested, and keeps a reference to the
 * newest config. Returns the index of the profile in it, or -ENOENT if the call named an unknown
 * one. */
int session_profile_enter(struct session *session, struct error *err);
/* The sandbox has ended, or could not be made. */
void session_profile_leave(struct session *session);

/* The profile of the sandbox, or NULL. */
const struct config_profile *session_profile(const struct session *session);
/* The index of the profile of a sandbox that is requested under this config, or -1. */
int session_profile_in(const struct session *session, const struct config *config);

/* Whether the next call names another profile than the sandbox has, and the error that it gets. */
bool session_profile_is_other(const struct session *session);
void session_profile_refusal(const struct session *session, char why[CELL_WHY_MAX]);
