/* The outcome of a call. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"

enum hub_outcome {
        HUB_OK,          /* result: the CallToolResult, isError included */
        HUB_NOT_FOUND,   /* no such server or tool, or the profile does not allow it: not sent */
        HUB_UNAVAILABLE, /* the server cannot start, or has ended */
        HUB_TIMEOUT,
        HUB_PROTOCOL, /* a JSON-RPC error: rpc_code, rpc_data; or an invalid answer */
        HUB_INPUT,    /* it asks for what the client cannot give; rpc_data: {"method", "params"} */
        HUB_OUTCOME_MAX,
};

/* The name of the exception in the sandbox (docs/rpc.md): "ToolNotFound"… */
const char *hub_outcome_kind(enum hub_outcome outcome);

/* Why a value is not a CallToolResult; NULL if it is. A missing content counts as an empty one. */
const char *hub_result_fault(yyjson_val *result);

struct hub_result {
        enum hub_outcome outcome;
        yyjson_val *result; /* HUB_OK; valid during the callback */
        const char *text;   /* the result as the server wrote it, or NULL */
        size_t text_length;
        int *memfd; /* or NULL: a RETURN with the result (rpc/memfd-frame.h). Set to -1 to take it */
        size_t memfd_length;
        const char *message; /* of another outcome */
        int64_t rpc_code;
        yyjson_val *rpc_data; /* or NULL */
        uint64_t duration_us;
        bool sent; /* the request was sent to the server */
};
