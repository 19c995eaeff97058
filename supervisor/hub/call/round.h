/*
 * Sends a call again, as its server asked: with the answers of the client and the server's state (MCP
 * 2026-07-28, "Multi Round-Trip Requests"), or after a new list of tools. The deadline of a call is for
 * all rounds.
 */
#pragma once

#include "supervisor/hub/call/call.h"

/* Counts a round. Returns false if there were CALL_ROUNDS_MAX, or the arguments were not kept: the call has
 * failed then. */
bool hub_call_may_repeat(struct hub_call *call);
/* Sends the call again, with the answers and the server's state. */
void hub_call_again(struct hub_call *call);

/* The request was refused, and not run, because the list of tools is old. Returns whether the call waits for
 * the next list; it does so once. */
bool hub_call_await_list(struct hub_call *call);
/* The next list has arrived: the calls that wait for it are sent again. why: it has not, as a predicate; they
 * fail. */
void hub_calls_listed(struct hub_calls *calls, const char *why);
