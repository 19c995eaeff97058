/*
 * Asks a program which version of CPython it is.
 *
 * The program is one of this machine, and was not checked: it may be another program of that name, print anything, or
 * not end. It has to belong to root or to one user, so that a folder of PATH that others can write to makes no one run their
 * programs. It runs without an environment, in its own process group, for a limited time; if the caller is root, as its owner.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "policy/python-version.h"

/* Asks the program, at the latest until `until` (clock_us()). owner: the user that it may belong to. Returns 1 and its version;
 * 0: it is not a CPython that can be used; -ETIMEDOUT: it did not end. */
int python_ask(const char *path, uid_t owner, uint64_t until, struct python_version *ret);
