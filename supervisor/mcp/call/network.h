/* The hosts that a cell has reached, and its refused requests, in its result. */
#pragma once

#include "base/buffer.h"
#include "base/json-out.h"
#include "supervisor/session/cell/cell.h"

#define NETWORK_SCHEMA                                                                                   \
        "\"network\":{\"type\":\"array\",\"description\":\"hosts that were asked for\",\"items\":{"      \
        "\"type\":\"object\",\"properties\":{\"host\":{\"type\":\"string\"},\"port\":{\"type\":"         \
        "\"integer\"},\"bytes_in\":{\"type\":\"integer\"},\"bytes_out\":{\"type\":\"integer\"},"         \
        "\"requests\":{\"type\":\"integer\"},\"denied\":{\"type\":\"integer\"}},\"required\":[\"host\"," \
        "\"bytes_in\",\"bytes_out\",\"denied\"]}}"

/* Adds "network", unless there was none. */
void network_put(struct json_out *out, const struct cell_outcome *outcome);

/* Appends a line about an end of the proxy, and one about each refusal, with the setting's name, at most NETWORK_REFUSALS_MAX; more are counted. */
enum { NETWORK_REFUSALS_MAX = 3 };
int network_append_refusals(const struct cell_outcome *outcome, struct buffer *to);
