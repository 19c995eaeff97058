/*
 * The locks of the worker's SQLite, without a call to init for each of them: a commit takes nine.
 *
 * SQLite lets a program replace its fcntl(). As long as no other process of the session has used a lock, none can exclude the
 * worker: its SQLite keeps its locks in a table of the worker, whose address init has. When another process asks for
 * a lock, init revokes the table, takes the locks over, and from then on SQLite's calls go to init.
 */
#pragma once

#include "sandbox-init/worker/python-api.h"

/* With the path of the module _sqlite3, which has been loaded. Without the functions that this needs, it does nothing. */
PyObject *sqlite_locks_hook(PyObject *self, PyObject *path);

/* In a process whose memory is that of another one, which init does not know. */
void sqlite_locks_forget(void);
