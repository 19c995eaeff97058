/*
 * The time of the running cell: it stands still while a person answers, packages are installed, or a block is rolled back.
 */
#pragma once

struct cell;
struct session;

enum { CELL_HELD_MAX_MS = 30 * 60000 };

/* The cell waits for a person or an installer: its time stands still until the same number of releases, but not longer than
 * CELL_HELD_MAX_MS in all plus the time of one hold. */
void cell_hold(struct cell *cell);
void cell_release(struct cell *cell);

/* The running cell waits for a restore: its time stands still. */
void session_pause_cell(struct session *session);
/* It continues. */
void session_resume_cell(struct session *session);
