/*
 * How a session returns to a sleeping copy of its worker: after the worker's end, to a checkpoint, or
 * by undo() (docs/cells.md).
 */
#pragma once

#include "supervisor/session/machine/machine.h"

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
