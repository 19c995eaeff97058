/* traceparent and tracestate, from a client: the first line and the rest. The values that are passed on are valid, and within their bounds. */
#include "rpc/trace-context.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        const char *text = (const char *)data, *end = memchr(text, '\n', n);
        size_t parent = end ? (size_t)(end - text) : n;
        struct trace_context context, again;
        char child[TRACE_PARENT_LENGTH + 1];

        if (!trace_context_read(&context, text, parent, end ? end + 1 : NULL,
                                end ? n - parent - 1 : 0)) {
                assert(!*context.id && !*context.state);
                return false;
        }
        assert(strlen(context.id) == TRACE_ID_LENGTH && strlen(context.state) <= TRACE_STATE_MAX);
        for (const char *c = context.state; *c; c++)
                assert(*c >= ' ' && *c <= '~');
        trace_context_child(&context, child);
        assert(trace_context_read(&again, child, strlen(child), context.state,
                                  strlen(context.state)));
        assert(strcmp(again.id, context.id) == 0 && strcmp(again.state, context.state) == 0 &&
               again.flags == context.flags);
        return true;
}

FUZZ_TARGET
