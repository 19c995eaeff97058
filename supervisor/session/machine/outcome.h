/* How a cell ended. One function decides it if the worker lives, another if the sandbox has ended.
 */
#pragma once

#include "supervisor/session/machine/machine.h"

#define OUTCOME_CLOSED "the code closed Cloister's channel"
#define OUTCOME_LATE   "the interpreter was not restored in time"
#define OUTCOME_SETUP  "the sandbox could not be set up, see its stderr"

/* Formats a time as "120 s" or "0.5 s". Returns to. */
const char *outcome_seconds(uint64_t ms, char to[32]);

/* Why a cell was interrupted. */
void outcome_describe_stop(const struct session *s, const struct cell *cell, char to[CELL_WHY_MAX]);

/* A cell with a RESULT: keeps the status in it unless the cell was interrupted. */
void outcome_alive(const struct session *s, struct cell *cell);

/* A sandbox that has ended. outcome: of the cell that ran in it, or any other one. */
void outcome_dead(const struct session *s, const struct monitor_ended *ended,
                  struct cell_outcome *outcome);

/* The processes that were stopped since the last call are in the note of this one. */
void outcome_note_stopped(struct session *session, struct cell *cell);

/* A sandbox has started: it has run no cell. */
void outcome_open(struct session *session, uint64_t now_us);
/* A cell that is not a probe starts. */
void outcome_note_start(struct session *session, const struct cell *cell);
/* A cell was sent: measures what it uses from now on. */
void outcome_begin(struct session *session, struct cell *cell);

/* Takes time, CPU time and memory of a cell at its end, after calls_forget_unsent(). ended: the monitor's counters if the
 * sandbox has ended, or NULL. The session's history gets them too. */
void outcome_take_usage(struct session *s, struct cell *cell, const struct monitor_ended *ended);

/*
 * The actions of the server's owner in a session: `cloister exec` and `cloister cp`.
 *
 * The client's next result says it, because its model assumes that only its own calls have changed variables and files.
 * A fact that a result states only once (why a sandbox was lost, that variables were restored) is kept for
 * the client: a cell of the owner gets the same words, and they are not used up.
 */

/* A cell starts: one of the client's says what the owner has done. Returns whether the sandbox is new for it. */
bool session_note_owner(struct session *session, struct cell *cell);
/* A cell that had started has ended. */
void session_note_owners_end(struct session *session, const struct cell *cell);
/* The server's owner has copied a file to /workspace of the session. */
void session_note_file(struct session *session, const char *path);
