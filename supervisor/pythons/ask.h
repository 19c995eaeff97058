/*
 * Asks a program which version of CPython it is.
 *
 * The program is one of this machine that nobody has checked: it may be another program of that name, print anything, or
 * not end. It runs without an environment, in its own process group, for a limited time. If the caller is root, a program
 * that belongs to another user runs as that user.
 */
#pragma once

#include <stdint.h>
#include <sys/stat.h>

#include "policy/python-version.h"

/* Asks the program, at the latest until `until` (clock_us()). Returns 1 and its version; 0: it is not a CPython that can be
 * used; -ETIMEDOUT: it did not end. *st: of its file, if that could be opened. */
int python_ask(const char *path, uint64_t until, struct python_version *ret, struct stat *st);
