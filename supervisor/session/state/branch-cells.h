/*
 * A session that begins as a branch of another one (docs/branches.md).
 *
 * Two cells of Cloister's own do it: LOAD is the first one of the new session, before the code that was
 * called for; when it starts, DUMP is queued in the other session. Queues, time limits, deaths and their
 * reasons are then those of any cell. If it is a branch of a checkpoint, its sleeping process writes itself instead, and
 * the other session continues.
 */
#pragma once

#include "supervisor/session/machine/machine.h"

/* The new session must begin as a branch of another one of this name. from: NULL if it does not exist; checkpoint: of it,
 * NULL: as it is now. shared: where the state is that several sessions begin as, NULL before the first of them; or NULL. The cell
 * is the one that was called for, and must be pushed after this. Returns 0 or negative errno. */
int branch_begin(struct session *to, struct session *from, const char *name, const char *checkpoint,
                 struct branch **shared, struct cell *cell, struct error *err);

/* The answer to a BRANCH_START. Returns whether it took the descriptors. */
bool branch_take_answer(const struct session_context *context,
                        const struct monitor_message *message);

/* Each sends the frame of a cell of this kind. */
int branch_send_load(struct session *session, struct cell *cell, struct error *err);
int branch_send_dump(struct session *session, struct cell *cell, struct error *err);
/* That has failed. */
void branch_load_failed(struct session *session, struct cell *cell, const struct error *err);
void branch_dump_failed(struct session *session, struct cell *cell, const struct error *err);
