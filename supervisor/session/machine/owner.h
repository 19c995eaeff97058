/*
 * Records the actions of the server's owner in a session: `cloister exec` and `cloister cp`.
 *
 * The client's next result says it, because its model assumes that only its own calls have changed variables and files.
 * A fact that a result states only once (why a sandbox was lost, that variables were restored) is kept for
 * the client: a cell of the owner gets the same words, and they are not used up.
 */
#pragma once

#include "supervisor/session/machine/machine.h"

/* A cell starts: one of the client's says what the owner has done. Returns whether the sandbox is new for it. */
bool session_note_owner(struct session *session, struct cell *cell);
/* A cell that had started has ended. */
void session_note_owners_end(struct session *session, const struct cell *cell);
/* The server's owner has copied a file to /workspace of the session. */
void session_note_file(struct session *session, const char *path);
