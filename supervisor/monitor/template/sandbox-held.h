/* How much memory the copies of a sandbox hold. */
#pragma once

#include "supervisor/monitor/template/sandbox-process.h"

/* Returns how much the copies and the candidate hold at most, without those that the candidate replaces. */
uint64_t sandbox_held_at_most(const struct sandbox *sandbox);
/* Asks a child for the exact figure. done() gets the sandbox and a reply of 8 bytes: UINT64_MAX if it is not known. */
int sandbox_ask_held(struct sandbox *sandbox, child_task_done *done);
