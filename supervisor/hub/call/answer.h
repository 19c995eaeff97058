/*
 * The answer of a server to a call: a result, an error, or a request that must be met before the call
 * continues.
 *
 * A result of MCP 2026-07-28 may ask for input or want its state back (requestState): the server
 * is called again with these, at most CALL_ROUNDS_MAX times. A result may also name a task, which is then
 * polled until it has ended. The deadline of a call is for all rounds.
 */
#pragma once

#include "supervisor/hub/call/call.h"

/* Takes ownership of the answer (its document too). is_modern: it is one of MCP 2026-07-28. large: the
 * line that it was received in, whose memfd is taken; or NULL. */
void hub_call_answer(struct hub_call *call, struct jsonrpc_message *answer, bool is_modern,
                     struct large_line *large);

/* The request was refused, and not run, because the list of tools is old. Returns whether the call waits for
 * the next list; it does so once. */
bool hub_call_await_list(struct hub_call *call);
/* The next list has arrived: the calls that wait for it are sent again. why: it has not, as a predicate; they
 * fail. */
void hub_calls_listed(struct hub_calls *calls, const char *why);

/* A request of a legacy server to the call's client. Takes what the request owns, and responds now or
 * later. */
void hub_call_ask(struct hub_call *call, struct client_request *request, yyjson_val *id);
/* The server withdraws a request. */
void hub_calls_unask(struct hub_calls *calls, yyjson_val *id);
