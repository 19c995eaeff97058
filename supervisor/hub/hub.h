/*
 * The hub: the user's MCP servers as one catalogue of tools and one way to call them.
 *
 * A server is started when it is first needed, once, concurrently with the others; what it said of
 * its tools is cached in the state directory, keyed by its config, so that the catalogue is there
 * at once on the next run. A server that fails, hangs or floods delays nobody and ends nobody else.
 * Single-threaded: everything here runs in the event loop given to hub_new(), and callbacks are
 * never called from inside the function that takes them.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "policy/config.h"

struct hub;
struct hub_call;
struct hub_wait;

/* What the hub needs of its owner. */
struct hub_host {
        void *data;
        /* Asks the monitor for the server of this index; hub_upstream_started() or _failed()
         * follows. */
        void (*start)(void *data, uint32_t index);
        /* Asks the monitor to end an instance; hub_upstream_ended() follows. */
        void (*stop)(void *data, uint32_t instance);
        /* The catalogue has changed (debounced): tell the client and every session. */
        void (*changed)(void *data);
};

/* state_dir: descriptor of the directory for the cache (borrowed), or -1: no cache. config is
 * borrowed. SIGPIPE is ignored from now on. */
int hub_new(struct hub **ret, struct event_base *base, const struct config *config, int state_dir,
            const struct hub_host *host, struct error *err);
struct hub *hub_free(struct hub *hub);

/*
 * Goes over to another config, borrowed from now on in place of the old one. A server that runs the
 * same (config_server.key) stays as it is, with its calls; the others are ended, and their calls
 * with them. From now on indices are the new config's: a start that was asked for and is not
 * answered yet is asked for again, so the owner drops what the monitor answers to the old one.
 * Returns 0, or negative errno with everything as it was.
 */
int hub_reload(struct hub *hub, const struct config *config, struct error *err);

/* From the monitor's events. fds: stdin, stdout, stderr of the server; the hub owns them. */
void hub_upstream_started(struct hub *hub, uint32_t index, uint32_t instance, const int fds[3]);
void hub_upstream_failed(struct hub *hub, uint32_t index, const struct error *error);
void hub_upstream_ended(struct hub *hub, uint32_t instance, int wait_status);

/*
 * What follows is asked on behalf of a profile, which says what servers and tools are in reach;
 * NULL: all of the config. It is borrowed during the call, by a wait until it is told or cancelled.
 */

/* Starts the servers whose tools are not in the cache (which = HUB_UNKNOWN) or all that are not
 * running. */
enum hub_which { HUB_UNKNOWN, HUB_ALL };
void hub_start(struct hub *hub, const struct config_profile *profile, enum hub_which which);

/* The payload of a CATALOG frame (rpc/frame.h), rebuilt when something changed, with its version,
 * which grows from one change to the next and is never given to two different payloads:
 * {"servers": [{"name", "state": "cached" | "starting" | "ready" | "failed" | "disabled", "error"?,
 *   "instructions"?, "tools": [{"name", "description", "inputSchema", "outputSchema"?,
 * "annotations"?}]}]}
 * Valid until the loop runs again. NULL when there is no memory. */
const struct buffer *hub_catalogue(struct hub *hub, const struct config_profile *profile,
                                   uint64_t *version);

/* Calls fn once no server is starting any more, at the latest after timeout_ms. Starts those that
 * are needed for a whole catalogue. */
struct hub_wait *hub_wait(struct hub *hub, const struct config_profile *profile,
                          uint32_t timeout_ms, void (*fn)(void *data), void *data);
void hub_wait_cancel(struct hub_wait *wait);

/* How a call ended, in the words of the sandbox's exceptions (docs/rpc.md). */
enum hub_outcome {
        HUB_OK,          /* result: the CallToolResult, isError included */
        HUB_NOT_FOUND,   /* no such server or tool, or not in reach: not sent */
        HUB_UNAVAILABLE, /* cannot start, crashed */
        HUB_TIMEOUT,
        HUB_PROTOCOL, /* JSON-RPC error: rpc_code, rpc_data; or an answer that is not one */
        HUB_OUTCOME_MAX,
};
const char *hub_outcome_kind(enum hub_outcome outcome); /* "ToolNotFound"… */

struct hub_result {
        enum hub_outcome outcome;
        yyjson_val *result; /* HUB_OK; valid during the callback */
        const char *text;   /* of it, as the server wrote it; NULL: write it anew */
        size_t text_length;
        const char *message; /* else */
        int64_t rpc_code;
        yyjson_val *rpc_data; /* or NULL */
        uint64_t duration_us;
        bool sent; /* it left for the server */
};

/*
 * Calls a tool; the server is started when it must be. arguments is an object, serialised before
 * this returns. timeout_ms 0: the server's own. fn is called exactly once unless the call is
 * dropped first. *ret is valid until then.
 */
int hub_call(struct hub *hub, const struct config_profile *profile, const char *server,
             const char *tool, yyjson_val *arguments, uint32_t timeout_ms,
             void (*fn)(void *data, const struct hub_result *result), void *data,
             struct hub_call **ret, struct error *err);

/* Nobody waits for this call any more: the server is sent notifications/cancelled; fn is not
 * called. */
void hub_call_drop(struct hub_call *call);
