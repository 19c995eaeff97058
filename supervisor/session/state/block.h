/*
 * Blocks of a cell that are taken back if they fail: `with transaction():` (docs/cells.md).
 *
 * Theory of operation. The worker sends QUERY begin and gets a KEEP, while its cell runs. The copy that it
 * makes takes the worker's place only if it is named. It holds a snapshot of /workspace, and
 * sleeps in the middle of the cell, where the block begins.
 *
 *     none ──begin──► asked ──KEPT──► offered ──the monitor has it──► open ──end──► none
 *     begin, while the monitor decides about an earlier copy: waiting, until it has answered
 *     asked, offered ──no copy──► refused ──await──► none
 *     open ──fail──► the session is restoring, then waking: the copy is the worker, and the cell continues
 *     a block that the worker leaves before it is open: its copy is dropped as soon as init has it, and
 *     another one that begins before waits for that
 *
 * A cell that ends with an open block has ended it. When the worker ends, init ends the copy with it.
 */
#pragma once

#include "supervisor/session/machine/machine.h"

/* Of the cell that runs. */
struct block {
        enum {
                BLOCK_NONE,
                BLOCK_WAITING, /* for the monitor's answer about an earlier copy */
                BLOCK_ASKED,   /* the worker for a copy, and then the monitor */
                BLOCK_REFUSED, /* no copy can be made: why */
                BLOCK_OPEN,
        } state;
        bool is_left;        /* before it was open */
        bool is_interrupted; /* what it has raised says that the cell was interrupted */
        uint64_t query;      /* that waits for an answer; 0: none */
        uint64_t copy;       /* its id */
        uint64_t began_us;   /* also of the one that is being rolled back */
        char why[CELL_NOTE_MAX];
};

/* Handler of the QUERY of a transaction. */
int block_on_query(struct session *session, uint64_t query, yyjson_val *root, struct error *err);
/* The monitor has answered about another copy. */
void block_retry(struct session *session, const struct session_details *details);
/* The block, or its cell, has ended. */
void block_end(struct session *session);
/* The worker has ended, and with it all copies of blocks. */
void block_forget(struct session *session);
/* The block has failed, and its copy has ended: the cell continues in the worker. */
void block_not_taken_back(struct session *session);
/* Takes what RESTORED says of it. */
void block_note(struct session *session, yyjson_val *root);
