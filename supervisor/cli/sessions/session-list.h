/* The parts of `cloister sessions` and of --watch that print sessions. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "supervisor/cli/sessions/servers.h"

/* A duration for a column: 850ms, 12s, 5m, 3h, 2d. Returns to. */
const char *session_list_time(int64_t ms, char to[16]);

/* Prints all sessions as an array of servers, in one line. Returns 0 or negative errno. */
int session_list_print_json(const struct servers *servers);
