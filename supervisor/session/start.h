/* How a session gets its sandbox: actions. */
#pragma once

#include "supervisor/session/machine/machine.h"

/* A cell waits, or the owner wants a sandbox: takes a spare one, or requests one. */
void start_get_sandbox(struct session *session, const struct session_details *details);
/* A place among the live sessions is free: the same again. */
void start_again(struct session *session, const struct session_details *details);
/* The sandbox that was requested exists. */
void start_take(struct session *session, const struct session_details *details);
/* It could not be created. */
void start_failed(struct session *session, const struct session_details *details);
/* The owner has ended the session meanwhile: the sandbox is killed as soon as it exists. */
void start_discard_later(struct session *session, const struct session_details *details);
void start_discard(struct session *session, const struct session_details *details);
