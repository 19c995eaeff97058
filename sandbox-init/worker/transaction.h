/*
 * The files of a transaction: the copy that is made before a cell holds a snapshot of /workspace, and
 * rolls it back when it takes the worker's place.
 *
 * The copy takes the snapshot, and not the worker, so that the memory for it is the copy's, and a lack of
 * memory ends only the copy. It tells the worker through a pipe how that went.
 */
#pragma once

#include <stdint.h>

#include "sandbox-init/worker/python-api.h"

struct transaction {
        int64_t bytes_max; /* of contents; -1: there is none, and all functions do nothing */
        int pipe[2];
};

/* In the worker, before the fork. Returns 0 or negative errno. */
long transaction_begin(struct transaction *transaction, int64_t bytes_max);
/* In the copy, after the fork. Without a snapshot the process ends. */
void transaction_take(const struct transaction *transaction);
/* In the worker, after the fork. pid: of the copy, or a negative errno. Returns it if there is a snapshot;
 * else kills the copy and returns the errno of snapshot_take(). */
long transaction_await(const struct transaction *transaction, long pid);
/* In the copy, when all others have ended. */
void transaction_roll_back(const struct transaction *transaction);
void transaction_end(void);

/* In a copy that has become the worker, once: (changed, returned, removed, failed, [names], [names that
 * failed]) of rollback.h, or None if it has rolled nothing back. */
PyObject *transaction_report(PyObject *self, PyObject *args);
