/* The view of the host on the processes of a sandbox. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "supervisor/doctor/attack-rows.h"

/* Adds rows about the processes of the sandbox that `cloister run` (the process pid) started.
 * has_proxy: its profile allows a network. Returns 0, -ESRCH if there is none, or another negative errno. */
int attack_posture(struct attack_rows *rows, pid_t pid, bool has_proxy, struct error *err);
