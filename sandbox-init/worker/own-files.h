/*
 * open() and os.open() that find the files about the machine (sandbox-init/init/machine-files.h): CPython opens with
 * O_CLOEXEC, which init is not asked about. They call the original function; if that finds no file below /proc or /sys, they ask
 * init. And sys.flags as it is in a program that was started as `python3 script.py`.
 */
#pragma once

#include "sandbox-init/worker/python-api.h"

/* With the names of the module and the function, its documentation as bytes, and the original. Returns the function that
 * replaces it; once for each of the two names. */
PyObject *own_files_wrap(PyObject *self, PyObject *args);

/* With sys.flags, and a list of the values of its members. Returns another sys.flags with these values. */
PyObject *own_flags(PyObject *self, PyObject *args);
