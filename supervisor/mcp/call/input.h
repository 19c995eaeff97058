/*
 * Questions of calls to their clients. A legacy client gets a request (ask.h).
 *
 * Theory of operation for modern clients (2026-07-28, "Multi Round-Trip Requests"). The call is answered with
 * its questions and a requestState. Its cell waits, with its sandbox, until the client calls again with that
 * state: running the code from its start would repeat what it has done. The state is a name that a client cannot
 * guess; it is valid for one request of the same principal with the same arguments, and for MCP_INPUT_WAIT_MS, or longer if the asker waits longer.
 * A further round has another one.
 */
#pragma once

#include "rpc/client-request.h"
#include "supervisor/mcp/call/arguments.h"
#include "supervisor/mcp/call/call.h"
#include "supervisor/session/cell/cell.h"

/* The client, as calls of servers' tools see it; data: the call. */
extern const struct cell_client_calls mcp_input_client;
/* Asks the client of a call. As in struct cell_client_calls. */
int mcp_input_ask(struct mcp_call *call, struct client_ask *ask, struct error *err);
/* Tells a legacy client, on the stream of its call, that the page of this elicitationId is not needed any more. */
void mcp_input_page_done(struct mcp_call *call, const char *page);

/* Digests of requests, by which a requestState is compared with its call. */
uint64_t mcp_input_digest(const struct run_arguments *arguments);
uint64_t mcp_input_digest_published(const char *method, const struct buffer *name,
                                    const struct buffer *arguments);

/* As mcp_call_attach(); the client gets the questions that it has not answered. */
void mcp_input_attach(struct mcp_call *call, const struct mcp_request *request,
                      struct reply *reply);
/* A request whose requestState may be that of a call that waits: continues the call, or answers with an error if it
 * was made with something else. digest: of the request. Returns false, and the reply is the caller's, if no call
 * of this principal has that state. */
bool mcp_input_resume(const struct mcp_request *request, uint64_t digest, struct reply *reply);
