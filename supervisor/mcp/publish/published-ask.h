/*
 * The end of a run of published code: its questions go to the client, its changes take effect, its result is the answer.
 */
#pragma once

#include "supervisor/session/cell/cell.h"

struct mcp_call;

/* struct mcp_call_kind: its ended(). */
void published_ended(struct mcp_call *call, uint64_t number, struct cell_outcome *outcome);
