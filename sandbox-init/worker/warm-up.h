/*
 * The warm-up: a dummy cell that runs through the same code as a cell of the broker, over a socket
 * pair instead of the broker's channel. An idle template runs it several times, so that CPython's
 * specialized code and caches are shared by its workers. A worker that finds no cell at its start
 * runs it once, so that the pages that a cell writes to are already its own.
 */
#pragma once

#include "sandbox-init/worker/python-api.h"

/* args: the payload of an EXEC frame (at most WARM_UP_CELL_MAX bytes), and a callable that reads one
 * cell from the channel, runs it and sends its result, which is dropped. Returns the callable's
 * result, or NULL with a Python exception. Only before the channel has been read: no code of the
 * guest runs earlier. */
enum { WARM_UP_CELL_MAX = 256 };
PyObject *warm_up_run(PyObject *args);
