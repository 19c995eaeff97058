/* Ends a call with the answer of its server. Each function takes ownership of the answer. */
#pragma once

#include "supervisor/hub/call/call.h"

/* The answer is the result. large: the line that it was received in, whose memfd is taken; or NULL. */
void hub_call_take_whole(struct hub_call *call, struct jsonrpc_message *answer,
                         struct large_line *large);
/* The result is a part of the answer. */
void hub_call_take_result(struct hub_call *call, struct jsonrpc_message *answer,
                          yyjson_val *result);
/* An error of JSON-RPC. message and data: of the answer; data may be NULL. */
void hub_call_take_failure(struct hub_call *call, struct jsonrpc_message *answer, int64_t code,
                           const char *message, yyjson_val *data);
/* An error of JSON-RPC, as an object that is a part of the answer. */
void hub_call_take_error(struct hub_call *call, struct jsonrpc_message *answer, yyjson_val *error);
