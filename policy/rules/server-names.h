/* Names of servers that people misspell. */
#pragma once

#include "base/error.h"

enum { SERVER_NAMES_MAX = 64 };

/* Sets the error "… there is no server …", with the name that was probably meant; `what` comes before it. names ends with NULL.
 * Returns -EINVAL. */
int server_names_unknown(const char *what, const char *name, const char *const *names,
                         struct error *err);
