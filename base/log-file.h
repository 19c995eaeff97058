/*
 * The log in a file, for the process that opened it.
 *
 * A file of LOG_FILE_MAX bytes becomes FILE.1, which replaces the previous FILE.1, and FILE begins anew. A file that
 * was named by a link (as /dev/stderr is one) is not renamed but emptied; so is one that cannot be
 * renamed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/log.h"

enum { LOG_FILE_MAX = 16 * 1024 * 1024 };

/* Appends to the file at path (made with mode 0600); NULL: to standard error. The descriptor gets a
 * high number, out of the way of those that a child expects its own descriptors at. */
int log_file_open(const char *path, enum log_format format, struct error *err);

/* Whether the log is a regular file, which has a bound. */
bool log_file_is_bounded(void);

/* Appends lines that another process wrote. */
void log_file_append(const char *lines, size_t n);
