/* A fork of the worker that sleeps until init puts it in the worker's place (docs/cells.md). */
#pragma once

#include "sandbox-init/raw.h"
#include "sandbox-init/worker/python-api.h"

struct copy_fork {
        volatile long helper, pid; /* pid: or negative errno */
        long group;                /* of the worker */
        raw_signals mask;          /* of the worker before; what the fork has at the end */
};

/*
 * Forks. The first argument tells whether other threads run Python: then CPython's own hooks of a fork run.
 * The fork, which is a child of the worker's parent, calls in_copy() with all signals
 * blocked; it becomes the copy when that returns.
 * Returns an int: in the worker the pid of the copy or a negative errno; 0 in the copy. *is_copy: whether
 * this is the copy.
 */
PyObject *copy_make(PyObject *has_threads, void (*in_copy)(void *data, struct copy_fork *made),
                    void *data, int *is_copy);

/*
 * Makes a copy that sleeps until init puts it in the worker's place. args: whether other threads run Python;
 * -1, or how many bytes of contents of /workspace the copy may hold to roll it back; its writer socket,
 * or -1. Returns as copy_make(), and also a negative errno of snapshot_take(). In a fork of the copy that will write
 * a branch, whose signals are all blocked: (descriptor to write to, that of the channel, signal mask of the worker).
 */
PyObject *copy_keep(PyObject *args, int *is_copy);

/* Finds where libc keeps the id of its thread. Before the fork. */
void thread_id_find(void);
/* In the fork: keeps those that libc has changed. */
void thread_id_confirm(void);
/* In the branch, whose id is another one. */
void thread_id_renew(void);

/* In a copy that has become the worker, once: (changed, returned, removed, failed, [names], [names that
 * failed]) of rollback.h, or None if it has rolled nothing back. */
PyObject *transaction_report(PyObject *self, PyObject *args);
