/*
 * The CPythons of this machine, by version.
 *
 * They are searched for by name, as python3.N: in the folders of PATH, in $PYENV_ROOT/versions (~/.pyenv), and in uv's
 * directory ($UV_PYTHON_INSTALL_DIR, else $XDG_DATA_HOME/uv/python, else ~/.local/share/uv/python). Not considered: virtual
 * environments, because their packages would come along; scripts (pyenv's shims); folders of builds without a GIL; versions before 3.9;
 * programs of other users.
 * The names of folders are not trusted: a program counts only after it has stated its version.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "policy/python-version.h"

enum { PYTHON_PATH_SIZE = 512, PYTHONS_MAX = 64 };

struct python {
        char path[PYTHON_PATH_SIZE];
        struct python_version version;
        bool is_asked; /* it has stated the version; otherwise the name of its folder has it, or nothing */
        bool is_late; /* it did not answer in time */
        dev_t device;
        ino_t inode;
};

struct pythons {
        struct python items[PYTHONS_MAX];
        size_t n;
        char late[PYTHON_PATH_SIZE]; /* the first that did not answer in time; "": none */
};

/* home, in each function: of the user that images belong to, if that is another user; NULL: the caller's own directories. */

/* All of them, newest first, those of which each has stated its version. Takes some 2 ms for each, 8 s at most. */
void pythons_list(const char *home, struct pythons *ret);

/* The newest of a version. Returns 1, or 0: there is none. */
int pythons_find(const struct python_version *wanted, const char *home, char ret[PYTHON_PATH_SIZE]);

/* The newest of a version in a list, or NULL. */
const struct python *pythons_pick(const struct pythons *found, const struct python_version *wanted);

/* An error that says which versions there are, and how to get `wanted`. found: NULL: they are searched for in the caller's
 * directories. Returns -ENOENT. */
int pythons_missing(const char *wanted, const struct pythons *found, struct error *err);
