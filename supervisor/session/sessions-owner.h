/* All sessions, as the owner of the server and the server as a whole see them: they are listed, ended and interrupted here. */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "supervisor/session/sessions.h"

struct sessions_count {
        size_t names;
        size_t live; /* have a sandbox, or wait for one */
        size_t max;  /* the limit of live sessions */
        size_t spares_coming, spares_ready, spares_ending;
};
void sessions_count(const struct sessions *sessions, struct sessions_count *ret);

/*
 * Appends an array of the live sessions in the order in which they were made:
 *
 *     {"name", "profile"?, "state": "idle" | "frozen" | "held" | …, "age_ms", "idle_ms"?, "memory_bytes",
 *      "memory_peak_bytes", "cells", "waiting", "cpu_ms", "tool_calls", "sent_bytes", "received_bytes", "output_bytes", "tasks_made"?,
 *      "copy_of_cell"?, "last"?: {"code", "status"?, "duration_ms", and of a cell that has ended the same figures},
 *      "receipts": [of the last cells, the newest first (receipts.h)]}
 *
 * copy_of_cell: to whose end the session returns if a cell ends its interpreter (docs/cells.md). idle_ms is present while no cell runs. Memory is as the kernel counts it, 0 if unknown. code is
 * the first line of the last cell, truncated; status is absent while that cell runs, and line is the last that it has printed.
 */
int sessions_append_list(const struct sessions *sessions, struct buffer *to);

/* Ends a session's sandbox at once, also while a cell runs; the result of the next call reports it. restart: a new
 * sandbox is created at once. -ENOENT: no live session has this name. */
int sessions_end(struct sessions *sessions, const char *name, bool restart, struct error *err);

/* Ends the sessions of a principal under a profile that it may not use, and refuses the code that waits for one. A name whose last sandbox had such a profile gets the
 * profile of its next call. */
void sessions_restrict(struct sessions *sessions, const char *principal,
                       bool (*may_use)(const void *data, const char *profile), const void *data);

/* Ends all sessions of a principal, and refuses the code that waits in them. */
void sessions_end_of(struct sessions *sessions, const char *principal);

/* How many cells, and questions for files, have not ended. */
size_t sessions_pending(const struct sessions *sessions);
/* Interrupts all cells, and ends those that have not begun; their results say why, a static text. */
void sessions_interrupt(struct sessions *sessions, const char *why);

/* How many sandboxes or workers were killed because their code did not end when it was interrupted so. */
size_t sessions_killed(const struct sessions *sessions);

/* Goes back to a checkpoint, or with NULL to the state before the call that runs or to the newest
 * checkpoint (checkpoint_undo()). */
int sessions_undo(struct sessions *sessions, const char *name, const char *checkpoint,
                  struct error *err);
