/*
 * Calls that do not wait for the end of their code: the arguments wait and interrupt, and calls without code.
 *
 * Theory of operation. A call is the owner of its cell, and at most one request waits for it. When the time
 * that the request gave is over, it is answered with the status running, and the call stays without a
 * request: it is unattended. A later request of the same principal that names the session and has no code is
 * attached to the call instead of a new one. If another request waits for it, that one is answered first,
 * without output, so that each output and each result is in one answer only. The result of a cell that
 * has ended meanwhile is kept until a request without code fetches it, or it is added to the next answer of the
 * session.
 *
 * A call whose cell is not the first of its session has not run anything. If its time is over, it is
 * answered with the status busy, and its cell is dropped.
 */
#pragma once

#include "supervisor/mcp/call/arguments.h"
#include "supervisor/mcp/call/call.h"
#include "supervisor/mcp/call/result.h"

enum { MCP_KEPT_MAX = 256 }; /* results of a principal */

/* The arguments of the request; its cell is in its session. */
void mcp_wait_begin(struct mcp_call *call, const struct run_arguments *arguments);
/* Interrupts the cell that the call's session runs. */
void mcp_wait_interrupt(struct mcp_call *call);
/* A call without code. Takes ownership of the reply. */
void mcp_wait_listen(const struct mcp_request *request, const struct run_arguments *arguments,
                     struct reply *reply);
/* The cell of an unattended call has ended. */
void mcp_wait_keep(struct mcp_call *call, uint64_t number, struct cell_outcome *outcome);
/* The call is answered: appends the text of the kept result of its session, if one exists, and frees it. */
void mcp_wait_take_earlier(struct mcp_call *call, struct buffer *to);
/* The part of the outcome that earlier answers have. */
void mcp_wait_options(const struct mcp_call *call, struct result_options *options);
