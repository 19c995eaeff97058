/* `cloister sessions --watch`: the sessions on a terminal, once a second. */
#pragma once

#include "supervisor/cli/command/options.h"

/* Returns the exit status. */
int watch_sessions(const struct options *o);
