/* Packages and the Python that a script says it needs (PEP 723), as options of `cloister run`. */
#pragma once

#include <stddef.h>

#include "base/error.h"
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
