/*
 * The position of a call in a trace that others have begun (W3C Trace Context, Recommendation 2021-11-23).
 *
 * It comes as `traceparent` and `tracestate`: members of _meta in MCP, or headers of HTTP. Values that are not valid are as
 * good as absent ones, and never an error: a client that traces wrongly is served.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        TRACE_ID_LENGTH = 32,
        TRACE_PARENT_LENGTH = 55, /* of version 00 */
        TRACE_STATE_MAX = 512, /* bytes that are passed on (3.3.1.5); later members are left out */
};

struct trace_context {
        char id[TRACE_ID_LENGTH + 1];    /* "": there is no trace */
        uint8_t flags;                   /* those that are known: sampled, random */
        char state[TRACE_STATE_MAX + 1]; /* or "" */
};

/* Takes the values of both; NULL: absent. Returns whether the trace is valid; otherwise *ret is empty. */
bool trace_context_read(struct trace_context *ret, const char *parent, size_t n_parent,
                        const char *state, size_t n_state);

/* Makes the `traceparent` of a new span below it, with a new id. */
void trace_context_child(const struct trace_context *context, char ret[TRACE_PARENT_LENGTH + 1]);
