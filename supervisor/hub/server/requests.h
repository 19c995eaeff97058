/*
 * The requests of a legacy server to our client.
 *
 * A request is passed on for a call of the server's (call/input.h). A server that works on no call may
 * request only roots, as many do when they have started, and only from the owner's own client.
 */
#pragma once

#include "rpc/jsonrpc.h"
#include "supervisor/hub/call/question.h"
#include "supervisor/hub/server/state.h"

/* The requests that a struct hub_server may send: bits of client_can. */
unsigned hub_server_client_can(void *data);

/* A request for our client. Returns false if it is a request for something else. */
bool hub_server_on_ask(struct hub_server *s, const struct jsonrpc_message *m);
/* The server does not want the answer to this request any more. */
void hub_server_unask(struct hub_server *s, yyjson_val *id);
/* For the questions of a struct hub_server. */
void hub_server_on_answered(void *data, struct question *q, yyjson_val *answer, const char *result,
                            const char *why);

/* Sends a notification to the server, one for all changes within SERVER_ROOTS_MS. */
void hub_server_roots_changed(struct hub_server *s);
