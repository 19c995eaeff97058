/* A branch: this worker's memory, and its way into the worker of another sandbox (docs/branches.md). */
#pragma once

#include <stdint.h>

#include "sandbox-init/worker/python-api.h"

/* In the template, before it serves: gives it an id that its forks inherit. */
void branch_prepare(void);

/*
 * Forks as copy_make() does. The fork writes the memory to fd, as of this call, and ends. Returns the same as
 * copy_make(); what was loaded in another sandbox also returns from here, as the copy, with 0, and *number is
 * what load() was given there.
 */
PyObject *branch_make(PyObject *has_threads, int fd, int *is_copy, int64_t *number);

/*
 * write() of the module: (fd, signal mask of the branch). The same in a fork of a checkpoint's process, which is itself
 * the writer (copy.c); thread_id_find() was called before that fork. Returns in the branch only, an int: what load() was
 * given there.
 */
PyObject *branch_write(PyObject *self, PyObject *args);

/* load() of the module: replaces this worker by what the descriptor has. Returns an errno if that is not
 * possible (dump.h). */
PyObject *branch_load(PyObject *self, PyObject *args);
