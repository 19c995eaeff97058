/* The parts of `cloister sessions` and of --watch that print sessions. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "supervisor/cli/sessions/servers.h"

/* A duration for a column: 850ms, 12s, 5m, 3h, 2d. Returns to. */
const char *session_list_time(int64_t ms, char to[16]);

/* All sessions as an array of servers on standard output. Returns 0 or negative errno. */
int session_list_print_json(const struct servers *servers, bool one_line);
