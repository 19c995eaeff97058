/*
 * The answer of a server to a call: a result, an error, or a request that must be met before the call
 * continues.
 *
 * A result of MCP 2026-07-28 may ask for input (input.h) or want its state back (requestState): the server
 * is called again with these, at most CALL_ROUNDS_MAX times. A result may also name a task, which is then
 * polled until it has ended (task.h).
 */
#pragma once

#include "supervisor/hub/call/call.h"

/* Takes ownership of the answer (its document too). is_modern: it is one of MCP 2026-07-28. large: the
 * line that it was received in, whose memfd is taken; or NULL. */
void hub_call_answer(struct hub_call *call, struct jsonrpc_message *answer, bool is_modern,
                     struct large_line *large);
