/* Counts requests. */
#include "supervisor/mcp/operation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "supervisor/service/metrics.h"

const char *operation_tool_name(const char *name)
{
        static char *names[OPERATION_TOOLS_MAX];

        for (size_t i = 0; i < OPERATION_TOOLS_MAX; i++) {
                if (!names[i])
                        names[i] = strndup(name, METRICS_VALUE_MAX);
                if (names[i] && strncmp(names[i], name, METRICS_VALUE_MAX) == 0)
                        return names[i];
        }
        return METRIC_OTHER;
}

/* The codes of JSON-RPC and of MCP. Code in a sandbox may choose any other. */
static const char *code_name(int code, char text[16])
{
        if (code != -32700 && (code < -32603 || code > -32600) && (code < -32099 || code > -32000))
                return METRIC_OTHER;
        snprintf(text, 16, "%d", code);
        return text;
}

static void count(const struct operation *o, const char *error)
{
        if (o->method)
                metrics_observe(METRIC_OPERATION, (double)(clock_us() - o->began_us) / 1e6,
                                o->method, o->tool, error, o->version, o->transport);
}

/* A CallToolResult names its error at its end. */
static bool is_error(const struct buffer *result)
{
        static const char yes[] = "\"isError\":true}";
        size_t n = sizeof(yes) - 1;

        return result->length > n && memcmp(buffer_bytes(result) + result->length - n, yes, n) == 0;
}

void operation_end(const struct operation *o, int code, const struct buffer *result)
{
        char text[16];

        if (!o->method)
                return;
        count(o, code != 0                                ? code_name(code, text)
                 : *o->tool && result && is_error(result) ? "tool_error"
                                                          : "");
}

void operation_cancel(const struct operation *o)
{
        count(o, "cancelled");
}
