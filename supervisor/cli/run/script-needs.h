/* Packages: those that a script says it needs (PEP 723), with its Python, as options of `cloister run`; the files of --requirements. */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "policy/package-set.h"
#include "supervisor/cli/command/command.h"

struct script_needs {
        char *packages; /* as of --with, or NULL */
        char *python;   /* as of --python; NULL: the usual one fits */
};

/* Adds them to the options, which borrow the strings from needs. A script is left alone if --image or its
 * profile names an image: that is checked in the sandbox. name is for messages, fd has the text. */
int script_needs_add(const char *name, const char *text, size_t n, int fd, struct options *options,
                     struct script_needs *needs, struct error *err);
void script_needs_done(struct script_needs *needs);

enum { REQUIREMENTS_KEY_SIZE = 17 };

/* The content of requirements files as a number, which finds the image that was built from them without an installer.
 * Reads the files of the set and those that they include. key: hexadecimal, or "" without files. */
int requirements_key(const struct package_set *set, char key[REQUIREMENTS_KEY_SIZE],
                     struct error *err);
