/*
 * Checkpoints: copies of the worker that have a name, and are kept until another one takes the name or
 * the session ends (docs/cells.md). undo() and the server's owner return to them, or to the last copy without a name.
 */
#pragma once

#include "supervisor/session/machine/machine.h"

/* Whether the first cell can be sent now. If not, it was refused, or the session returns to a checkpoint first. */
bool checkpoint_prepare(struct session *session);
/* The cell has ended and asks for a checkpoint. Returns false if it ends without one. */
bool checkpoint_make(struct session *session, struct cell *cell);

/* Handler of the QUERY of undo(): answers it only if no copy exists. */
int checkpoint_on_undo(struct session *session, uint64_t query, yyjson_val *root,
                       struct error *err);

/* For the server's owner: returns to a checkpoint, or, if it is NULL, to the state before the call that runs, or to the
 * newest checkpoint if none does. */
int checkpoint_undo(struct session *session, const char *checkpoint, struct error *err);
