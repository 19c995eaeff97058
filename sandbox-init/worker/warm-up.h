/*
 * The way to a first result, gone by a template that no session is asked of.
 *
 * First by itself, some times over: what CPython finds out on the way all workers then know. Then
 * by a fork of it, for the template to see which pages that writes (sandbox-init/setup/pages.h).
 * Both have a channel on which a cell arrives.
 */
#pragma once

#include <stddef.h>

#include "sandbox-init/setup/template.h"
#include "sandbox-init/worker/python-api.h"

/* args: the payload of the EXEC, a callable that is called while the channel is open. Returns None,
 * or NULL with a Python exception. */
PyObject *warm_up_practise(PyObject *args);

/* cell: of WARM_UP_CELL_MOST bytes at most, the payload of its EXEC. Returns 1 in the fork, which
 * waits for no release; in the template 0, once the fork is gone, or -EAGAIN when somebody asked
 * for a session before its result came. */
enum { WARM_UP_CELL_MOST = 256 };
int warm_up(const char *cell, size_t n, struct template_session *ret);
