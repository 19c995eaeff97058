/*
 * Calls of run_python with `plan` (docs/plans.md).
 *
 * Theory of operation. The call has two cells. Its own waits in its session, postponed: so nothing else runs there. The other one runs the
 * same code in a copy of the session, and fills the plan. When it has ended well, a question about the calls that ask goes to a person; after a yes
 * the call's own cell begins. Otherwise that is cancelled, and what is known of the plan is the call's result.
 */
#pragma once

#include "supervisor/mcp/call/call.h"

struct plan_run;

/* Starts both cells, of this request, and sets call->cell and call->plan. key: of the session. is_only: the code runs in the copy only. Returns 0 or negative errno
 * with an error; nothing was started then. */
int plan_run_start(struct mcp_call *call, const struct cell_request *cell, const char *key,
                   bool is_only, struct error *err);
/* The call's own cell has ended: completes the outcome, or replaces it. NULL is allowed. */
void plan_run_take_outcome(struct plan_run *run, struct cell_outcome *outcome);
/* The call is freed: ends its plan. NULL is allowed. */
void plan_run_drop(struct plan_run *run);
