/* The memory of a sandbox that no control group counts. */
#pragma once

#include "supervisor/monitor/template/sandbox-control.h"

/* Opens what the monitor counts it with. */
int sandbox_open_memory(struct sandbox *sandbox, struct error *err);
/* NULL: a control group counts it, or the session has not started. */
const struct sandbox_memory *sandbox_memory(const struct sandbox *sandbox);

/* Kills it, or restores it if there is a copy, and reports that it was out of memory. */
void sandbox_kill_for_memory(struct sandbox *sandbox);

bool sandbox_is_out_of_memory(const struct sandbox *sandbox); /* until that is reported */
