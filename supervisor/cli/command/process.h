/* Processes that commands start: short Python programs, and helpers that outlive the command line. */
#pragma once

#include <stddef.h>

#include "base/error.h"

/* Forks a child, which calls run(data, out) and must not return, and reads what it writes to out, at most `most`
 * bytes. what: for messages. *ret is ended by a NUL, and the caller frees it. Returns the wait status, or negative errno. */
int process_read(void (*run)(const void *data, int out), const void *data, const char *what,
                 size_t most, char **ret, size_t *length, struct error *err);

/* Starts a process that calls run(socket, data) and is not a child of the caller, because the monitor, which the caller
 * becomes, kills children that it does not know. what: for messages. Returns the other end of the socket. */
int process_start_apart(void (*run)(int socket, const void *data), const void *data,
                        const char *what, struct error *err);

/* Exit statuses. WRONG: the file is not what the program needs; its output says why. */
enum { PYTHON_MISSING = 120, PYTHON_WRONG = 122 };

/* Runs a short program by a python3 of the machine, with a file as its standard input. It loads no other code (-I: no
 * environment variables, no user directory; -S: no site-packages). pythons: names in PATH, or paths, ended by NULL: the
 * first one that exits with 0 or PYTHON_WRONG counts. Returns the exit status or negative errno. *ret is the program's
 * output, ended by a NUL, and the caller frees it; it must be NULL before. */
int python_program_run(const char *const *pythons, const char *program, const char *path,
                       char **ret, size_t *length, struct error *err);
