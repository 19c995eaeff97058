/*
 * A cell that is taken back if it fails: variables and files in /workspace are as before (docs/cells.md).
 *
 * Before the cell starts, a copy of the worker is made that holds a snapshot of /workspace. If the cell
 * ends with anything but ok, or its interpreter ends, the copy takes the worker's place and rolls files
 * back. Calls that were sent to servers are not taken back: the result lists them.
 */
#pragma once

#include "supervisor/session/machine/machine.h"

/* Of the cell that is the next one or runs. */
struct transaction {
        enum {
                TRANSACTION_NONE,
                TRANSACTION_ASKED,   /* for the copy to which a failure returns */
                TRANSACTION_READY,   /* that copy exists */
                TRANSACTION_REFUSED, /* it does not exist: why */
                TRANSACTION_RUNNING,
        } state;
        uint64_t copy; /* its id */
        char why[CELL_NOTE_MAX];
};

/* Whether the first cell may start now. If not, it waits for a copy, or it was refused. */
bool transaction_begin(struct session *session);
/* The running cell has a result. Returns whether it is rolled back; otherwise its transaction has ended. */
bool transaction_roll_back(struct session *session, struct cell *cell);
/* The copy has ended before. Returns whether a cell was to be rolled back: it ends. */
bool transaction_cannot_roll_back(struct session *session);
/* Whether the running cell has a result and is rolled back. */
bool transaction_is_failing(const struct session *session);
/* The worker has ended, and copies.woken takes its place. Returns whether files are rolled back too. */
bool transaction_is_rolling_back(const struct session *session);
