/* A fork of the worker that sleeps until init puts it in the worker's place (docs/cells.md). */
#pragma once

#include <stdint.h>

#include "sandbox-init/raw.h"
#include "sandbox-init/worker/python-api.h"

/*
 * Makes a copy that sleeps until init puts it in the worker's place. args: whether other threads run Python; whether threads may be held (threads.h);
 * -1, or how many bytes of contents of /workspace the copy may hold to roll it back; its writer socket,
 * or -1. Returns an int: in the worker the pid of the copy or a negative errno, also of snapshot_take(); 0 in the copy.
 * *is_copy: whether this is the copy. In a fork of the copy that will write a branch, whose signals are all blocked: (descriptor to write to, that of the channel, signal mask of the worker).
 */
PyObject *copy_keep(PyObject *args, int *is_copy);

/* Of the last copy: how many threads were held for it, or the negative id of one that could not be. */
long copy_held(void);

/* In a copy that has become the worker, once: (changed, returned, removed, failed, [names], [names that
 * failed]) of rollback.h, or None if it has rolled nothing back. */
PyObject *transaction_report(PyObject *self, PyObject *args);

/* In the template, before it serves: gives it an id that its forks inherit. */
void branch_prepare(void);

/*
 * Forks as copy_keep() does. The fork writes the memory to fd, as of this call, and ends. Returns the same; what was loaded in another sandbox also returns from here, as the copy, with 0, and *number is
 * what load() was given there.
 */
PyObject *branch_make(int has_threads, int fd, int *is_copy, int64_t *number);

/*
 * write() of the module: (fd, signal mask of the branch). The same in a fork of a checkpoint's process, which is itself
 * the writer. Returns in the branch only, an int: what load() was
 * given there.
 */
PyObject *branch_write(PyObject *self, PyObject *args);

/* load() of the module: (fd, offset, number). Replaces this worker by what the file has from the offset on. Returns an errno if that is not
 * possible (dump.h). */
PyObject *branch_load(PyObject *self, PyObject *args);
