/*
 * How a session returns to a sleeping copy of its worker: after the worker's end, to a checkpoint, or
 * by undo() (docs/cells.md).
 *
 * Checkpoints: copies of the worker that have a name, and are kept until another one takes the name or
 * the session ends (docs/cells.md). undo() and the server's owner return to them, or to the last copy without a name.
 */
#pragma once

#include "supervisor/session/machine/machine.h"

/* Without a call, since the last one: a copy that ends by itself would use processor time without end. */
enum { RESTORE_IDLE_MAX = 8 };

/* Has the newest copy take the place of a worker that does not stop. Returns false if no copy exists. */
bool restore_newest(struct session *session);

/* Actions. */

/* Has the copy that is wanted take the worker's place (EVENT_BACK). */
void restore_go_back(struct session *session, const struct session_details *details);
/* That copy has ended before the worker, which lives. */
void restore_cannot_go_back(struct session *session, const struct session_details *details);
/* The worker has ended: a copy is woken. */
void restore_take_cleared(struct session *session, const struct session_details *details);
/* The copy is the worker. */
void restore_take_restored(struct session *session, const struct session_details *details);
void restore_give_up(struct session *session, const struct session_details *details);

/* Handler of RESTORED frames. */
int restore_on_restored(struct session *session, const struct frame_header *header,
                        struct frame_body *body, struct error *err);

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
