/*
 * How many processes and threads the code of a session creates, and when its files are scanned.
 *
 * The kernel numbers them in the order in which they are created, in the session's pid namespace; init reads the
 * newest number. Code can neither set it nor answer for init. A reading costs two messages and four
 * switches between processes, so it comes after the result, and not for each of many short cells: their
 * receipts have one number together.
 *
 * init scans the files when that number is requested, unless the scan takes long. Therefore it is requested once more when
 * the session rests.
 *
 * Numbers start again at 300 after pid_max. Then it is unknown what was created before.
 */
#pragma once

#include "supervisor/session/machine/machine.h"

/* A sandbox has started. Takes ownership of the descriptor on which init writes which files have changed. */
void tasks_open(struct session *session, int changes_fd);
void tasks_close(struct session *session);
/* A cell has ended and has its receipt. */
void tasks_note_cell(struct session *session, const struct cell *cell);
/* The files that a branch starts with were not created by its first cell. */
void tasks_note_load(struct session *session, const struct cell *load);
/* Whether the session rests for the first time since its last cell and was not scanned. */
bool tasks_scan_is_due(const struct session *session);
/* Requests that scan. */
void tasks_scan(struct session *session);

/* init has answered. Copies of the worker have numbers too. is_copying: a copy is being made; of_block: the last one
 * was made while a cell runs, which continues. */
void tasks_counted(struct session *session, const struct monitor_counted *counted, bool is_copying,
                   bool of_block);
/* Whether code may have left processes. Where an answer is missing it is requested again; was_asked: and is taken for yes. */
bool tasks_may_be_left(struct session *session, bool was_asked);
/* The worker, or the sandbox, has ended. */
void tasks_end(struct session *session, const struct monitor_ended *ended);
