/* A session's queue of cells: the first one runs, or is the next to run. */
#pragma once

#include <stdbool.h>

#include "supervisor/session/cell/cell.h"

struct session;
struct session_details;

int queue_init(struct session *session);
/* Frees waiting cells without calling their done(). */
void queue_done(struct session *session);

/* Schedules EVENT_WAKE in the event loop. */
void session_wake(struct session *session);

/* Queues a cell; takes ownership. A cell that saves the session for a branch is placed before a postponed cell. */
void session_push(struct session *session, struct cell *cell);

/* The first cell starts: its output begins, and it gets its number. */
void session_number_cell(struct session *session);
/* The server ends: tells the end of the cell that runs, and of the sandbox. */
void session_tell_stop(struct session *session);
/* Removes a cell from the queue, calls its done() and frees it. */
void session_end_cell(struct session *session, struct cell *cell);
/* Action: the session is idle, and a cell that has waited for this (for its checkpoint) ends. */
void session_become_idle(struct session *session, const struct session_details *details);
/* Ends a cell that was not started. */
void session_refuse_cell(struct session *session, struct cell *cell, enum cell_status status,
                         const char *type, const char *why);
/* Ends the first cell, which was not started, with an error; the next cell follows. */
void session_refuse_first(struct session *session, const char *type, const char *why);
/* Ends all cells that is_meant() chooses of those that were not started, with an error. */
void session_refuse_unbegun(struct session *session,
                            bool (*is_meant)(const void *data, const struct cell *cell),
                            const void *data, const char *type, const char *why);
/* Tells the clients of all cells in the queue what they wait for (struct cell_client_calls). */
void session_tell_step(struct session *session, const char *what, const char *text);
/* Ends the cells that were cancelled before they were started. */
void session_drop_cancelled(struct session *session);
/* The sandbox has ended. If it is certain that its worker has not read its first cell, and so has run
 * no code: takes the cell back into the queue, so that another sandbox runs it. Otherwise returns false. */
bool session_take_back_cell(struct session *session);

/* Stops a cell: it leaves the queue, or it is interrupted and, if it still runs after
 * SESSION_GRACE_MS, its sandbox is killed. done() follows with the status cancelled. */
void cell_cancel(struct cell *cell);

/* As cell_cancel(), but the sandbox of a running cell is killed at once. */
void cell_kill(struct cell *cell);

/* As cell_cancel(); its result says why, a static text. */
void cell_interrupt(struct cell *cell, const char *why);

/* A postponed cell may begin. */
void cell_begin_postponed(struct cell *cell);
/* The sandbox has ended: the same for a postponed cell, which would begin in another one. */
void session_end_postponed(struct session *session);

/* Whether no other code of its session is before it. */
bool cell_is_first(const struct cell *cell);

/* The time of the running cell stands still while a person answers, packages are installed, or a block is rolled back. */

enum { CELL_HELD_MAX_MS = 30 * 60000 };

/* The cell waits for a person or an installer: its time stands still until the same number of releases, but not longer than
 * CELL_HELD_MAX_MS in all plus the time of one hold. */
void cell_hold(struct cell *cell);
void cell_release(struct cell *cell);

/* The running cell waits for a restore: its time stands still. */
void session_pause_cell(struct session *session);
/* It continues. */
void session_resume_cell(struct session *session);
