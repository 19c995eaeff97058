/* Answers to a worker's CALL, QUERY and READ: RETURN frames. */
#pragma once

#include <stdint.h>

#include "base/json.h"
#include "supervisor/session/channel/channel.h"

struct answer_error {
        const char *kind; /* name of the exception in the sandbox (docs/rpc.md) */
        const char *message;
        int64_t code; /* of a JSON-RPC error; 0: none */
        yyjson_val *data;
};

/* Each answers the request with this number. A failure to send is logged, unless the channel has ended. */
void answer_error(struct channel *channel, uint64_t number, const struct answer_error *error);
/* Answers with a ToolError. */
void answer_refuse(struct channel *channel, uint64_t number, const char *why);
/* Answers a request that has no result. */
void answer_confirm(struct channel *channel, uint64_t number);

/* Answers with the result, a JSON text. Returns as channel_send_parts(). */
int answer_result(struct channel *channel, uint64_t number, const char *text, size_t n);
