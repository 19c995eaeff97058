/*
 * The requests of a call's server to the call's client: input of a person, directories, an answer of a
 * model.
 *
 * A legacy server sends a request, and gets the response. A modern server answers the call with all that it
 * asks for, and is called again with the answers. Until then the time of the call stands still; each
 * question has its own deadline. A server that requests a capability which the client lacks ends the
 * call. The error says what the server requested, so that the code, or the author of the code, can act.
 */
#pragma once

#include "supervisor/hub/call/call.h"

/* Asks the client for all of these input requests, except those of call->asked_keys. Calls answered() when
 * none is open any more, perhaps before it returns. */
void hub_call_ask_all(struct hub_call *call, yyjson_val *requests,
                      void (*answered)(struct hub_call *call));
/* The server's error says which addresses must be opened first (-32042). Returns whether it is such an error:
 * the call continues then, or has ended. */
bool hub_call_ask_urls(struct hub_call *call, struct jsonrpc_message *answer);
/* A request of a legacy server to the call's client. Takes what the request owns, and responds now or
 * later. */
void hub_call_ask(struct hub_call *call, struct client_request *request, yyjson_val *id);
/* The server withdraws a request. */
void hub_calls_unask(struct hub_calls *calls, yyjson_val *id);
