/*
 * run_python with `branches`: one call whose code runs in N sessions, which begin as one state (docs/branches.md). One result has all of
 * them, in their order. The call has no cell of its own; each branch has one, and one that fails does not end the others.
 */
#pragma once

#include "supervisor/mcp/call/call.h"
#include "supervisor/mcp/sink.h"
#include "supervisor/session/cell/cell.h"

/* Starts the call. cell: what all branches have in common, without done() and data. name: without the numbers. Takes ownership of
 * the call. Returns 0, or negative errno: no session was made, and the call must be answered and freed. */
int branch_calls_start(struct mcp_call *call, const struct cell_request *cell, const char *name,
                       unsigned n, struct error *err);
