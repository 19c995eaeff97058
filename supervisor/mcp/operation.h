/*
 * A request as the metrics count it: by method, tool, protocol version and transport, from its arrival to its answer.
 *
 * All members are texts of ours or of the config, which live as long as the process: METRIC_OTHER replaces what a client has made up.
 */
#pragma once

#include <stdint.h>

#include "base/buffer.h"

struct operation {
        const char *method;  /* NULL: not counted */
        const char *tool;    /* or "" */
        const char *version; /* or "" before initialize */
        const char *transport;
        uint64_t began_us;
};

/* The name of a tool that the config publishes, as a text that stays; OPERATION_TOOLS_MAX different ones, then METRIC_OTHER. */
const char *operation_tool_name(const char *name);
enum { OPERATION_TOOLS_MAX = 128 };

/* It was answered: with a result, or with an error of this code (0: a result). result: or NULL. */
void operation_end(const struct operation *operation, int code, const struct buffer *result);
/* It gets no answer, because it was cancelled. */
void operation_cancel(const struct operation *operation);
