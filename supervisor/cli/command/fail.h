/* How a command reports its failure. */
#pragma once

#include "base/error.h"

/* Prints one line on standard error, "cloister: …", with control characters made visible. Returns
 * status. */
int cli_fail(int status, const struct error *err);
