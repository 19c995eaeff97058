/*
 * The tools of the user's MCP servers, as sessions and the MCP server use them: a table of
 * functions. The broker fills it with the hub's (supervisor/broker/tool-provider.c), a test with
 * its own.
 *
 * A profile limits the servers and tools; NULL: no limit. No function but search() calls back before it
 * returns.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "policy/config/config.h"
#include "rpc/client-request.h"
#include "rpc/memory-account.h"
#include "supervisor/session/cell/cell.h"

struct trace_context;
struct tool_call; /* a call or a wait of a session; only supervisor/session/calls/calls.c looks inside */

struct tool_result {
        const char *error_kind; /* name of the exception in the sandbox (docs/rpc.md), or NULL */
        yyjson_val *result;     /* without an error: the CallToolResult; valid during the call */
        const char *text;       /* the result as its server wrote it, or NULL */
        size_t text_length;
        int *memfd; /* or NULL: a RETURN with the result (rpc/memfd-frame.h). Set to -1 to take it */
        size_t memfd_length;
        const char *message; /* of the error, or NULL */
        int64_t rpc_code;    /* of a JSON-RPC error */
        yyjson_val *rpc_data;
        uint64_t duration_us;
        bool sent; /* the request was sent to the server */
};

enum tool_servers {
        TOOL_SERVERS_UNKNOWN, /* those whose tools are not in the cache */
        TOOL_SERVERS_ALL,
};

struct tool_request {
        const struct config_profile *profile;
        const char *server;
        const char *method; /* NULL: tools/call */
        const char *tool;   /* of tools/call */
        /* An object, serialised before call() returns. Of tools/call the arguments, else the params. */
        yyjson_val *arguments;
        struct shared_text *text; /* of large arguments: referenced, not copied; or NULL */
        uint32_t timeout_ms;      /* 0: the server's own */
        struct tool_call *call;
};

/* A tool as it is known before it is called. */
struct tool_description {
        yyjson_val
                *tool; /* as in the catalogue, with inputSchema and annotations; NULL: not known */
        bool trusts_hints;  /* of its server, in the config */
        const char *labels; /* of its server (policy/rules/labels.h), or NULL */
};

struct tool_provider {
        void *data;

        /* Starts servers that are not running. */
        void (*start)(void *data, const struct config_profile *profile, enum tool_servers which);

        /* The payload of a CATALOG frame and its version, which grows with each change. Valid until
         * the loop runs again. NULL: out of memory. */
        const struct buffer *(*catalogue)(void *data, const struct config_profile *profile,
                                          uint64_t *version);

        /* Calls a server; tool_call_done() follows exactly once unless the call is dropped. *handle is
         * valid until then. */
        int (*call)(void *data, const struct tool_request *request, void **handle,
                    struct error *err);
        /* Describes a tool; its values are valid until the loop runs again. tool: NULL for another method. May be NULL. */
        void (*describe)(void *data, const char *server, const char *tool,
                         struct tool_description *ret);
        /* Adds the capabilities of one more client: bits of client_can. May be NULL. */
        void (*add_client)(void *data, unsigned can);
        /* The roots that this server got from a client have changed. May be NULL. */
        void (*roots_changed)(void *data, const char *server, const char *principal);
        /* A principal has ended: its own processes of servers end. May be NULL. */
        void (*forget)(void *data, const char *principal);
        /* Tells the server that the call is cancelled. */
        void (*drop)(void *handle);
        /* The time of the call stands still until the same number of calls with false. May be NULL. */
        void (*hold)(void *handle, bool stands_still);
        /* Whether the request was sent to the server. */
        bool (*is_sent)(void *handle);

        /* Waits until no server is starting, at most timeout_ms; tool_wait_done() follows unless
         * the wait is cancelled. Returns NULL when out of memory. */
        void *(*wait)(void *data, const struct config_profile *profile, uint32_t timeout_ms,
                      struct tool_call *call);
        void (*cancel_wait)(void *handle);

        /* Finds the tools that match a query best, at most `limit` of them; tool_search_done() follows, perhaps
         * before this returns, unless the search is cancelled. *handle is valid until then. Returns
         * 0 or -ENOMEM. */
        int (*search)(void *data, const struct config_profile *profile, const char *query, size_t n,
                      size_t limit, struct tool_call *call, void **handle);
        void (*cancel_search)(void *handle);
};

/* The provider's answers. */
void tool_call_done(struct tool_call *call, const struct tool_result *result);
void tool_wait_done(struct tool_call *call);

/* Requests of the provider to the client for which a call is made. */

/* *cell: the cell that has made the call, which stands for its client. Returns false if it has ended, or
 * has no client. */
bool tool_call_client(struct tool_call *call, struct cell_client *ret, const void **cell);
/* The principal of its session (session-name.h), not terminated; *n is 0 if it has no name. */
const char *tool_call_principal(const struct tool_call *call, size_t *n);
/* The trace of its cell, or NULL. */
const struct trace_context *tool_call_trace(const struct tool_call *call);
int tool_call_ask(struct tool_call *call, struct client_ask *ask, struct error *err);
void tool_call_progress(struct tool_call *call, const struct cell_progress *progress);
void tool_call_log(struct tool_call *call, yyjson_val *params);
/* found: {"tools":[{"server","tool":{…}}]}, or NULL after an error. */
void tool_search_done(struct tool_call *call, const char *found, size_t n);
