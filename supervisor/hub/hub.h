/*
 * The hub: the user's MCP servers as one catalogue of tools and one way to call them.
 *
 * A server is started once, when it is first needed, concurrently with the others. Its list of tools
 * is cached in the state directory, keyed by its config, so that the next run has the catalogue at
 * once. A server that fails, hangs or floods the hub does not delay or end any other. All runs in one
 * thread, in the event loop given to hub_new(); a callback is never called from inside the function
 * that takes it.
 */
#pragma once

#include <event2/event.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "policy/config/config.h"
#include "supervisor/hub/call/caller.h"

struct hub;
struct hub_call;
struct hub_search;
struct hub_server;
struct hub_wait;

/* state_dir: descriptor of the directory for the cache (borrowed), or -1: no cache. config is
 * borrowed. Ignores SIGPIPE in this process. */
int hub_new(struct hub **ret, struct event_base *base, const struct config *config, int state_dir,
            const struct hub_host *host, struct error *err);
struct hub *hub_free(struct hub *hub);

/*
 * Changes to another config, which is borrowed instead of the old one. A server that runs the same
 * program (config_server.key) runs on with its calls; the others are ended, and their calls fail.
 * From now on indices are those of the new config: a start that the monitor has not answered yet is
 * asked for again, so the owner must ignore the answer to the old request. Returns 0, or negative
 * errno and nothing has changed.
 */
int hub_reload(struct hub *hub, const struct config *config, struct error *err);

/* The server of an index of the config, or NULL. */
struct hub_server *hub_server_at(const struct hub *hub, uint32_t index);

struct json_out;
/* Appends an object for each server that runs or was restarted because of a refused message:
 * {"name", "principal"?, "state", "calls", "restarts"?, "restarted_ms"?, "reason"?}. */
void hub_put_servers(const struct hub *hub, struct json_out *out);
/* Sets the metric of the servers that are connected. */
void hub_collect(const struct hub *hub);

/* From the monitor's events. fds: stdin, stdout, stderr of the server; the hub owns them. */
void hub_upstream_started(struct hub *hub, uint32_t index, uint32_t instance, const int fds[3]);
void hub_upstream_failed(struct hub *hub, uint32_t index, const struct error *error);
void hub_upstream_ended(struct hub *hub, uint32_t instance, int wait_status);

/*
 * The functions below take a profile, which limits the servers and tools that can be used; NULL: no
 * limit. It is borrowed during the call, and by a wait until that has ended.
 */

/* Starts the servers whose tools are not in the cache (which = HUB_UNKNOWN) or all that are not
 * running. */
enum hub_which { HUB_UNKNOWN, HUB_ALL };
void hub_start(struct hub *hub, const struct config_profile *profile, enum hub_which which);

/* The payload of a CATALOG frame (rpc/frame.h), and its version, which grows with each change and
 * belongs to one payload only:
 * {"servers": [{"name", "state": "cached" | "starting" | "ready" | "failed" | "disabled", "error"?,
 *   "instructions"?, "tools": [{"name", "description", "inputSchema", "outputSchema"?,
 * "annotations"?}]}]}
 * Valid until the loop runs again. NULL when there is no memory. */
const struct buffer *hub_catalogue(struct hub *hub, const struct config_profile *profile,
                                   uint64_t *version);

/* Starts the servers whose tools are not known, and calls fn once no server is starting any more, or
 * after timeout_ms. */
struct hub_wait *hub_wait(struct hub *hub, const struct config_profile *profile,
                          uint32_t timeout_ms, void (*fn)(void *data), void *data);
void hub_wait_cancel(struct hub_wait *wait);

/* The capabilities of one more client (bits of client_can): servers that start from now on get those of all
 * clients. */
void hub_add_client(struct hub *hub, unsigned can);

/* The roots of a client, which this server has received, have changed. */
void hub_roots_changed(struct hub *hub, const char *server, const char *principal);
/* The principal has ended: its own processes of servers end. */
void hub_forget(struct hub *hub, const char *principal);

/* Sends a request; the server is started when it must be. *ret is valid until the caller's done(). */
int hub_call(struct hub *hub, const struct hub_request *request, struct hub_call **ret,
             struct error *err);

/* A tool as its server lists it: {"name", "inputSchema", "annotations"…}; NULL: not known (or tool is NULL). Valid until the loop
 * runs again. *trusts_hints: of the server, in the config. */
yyjson_val *hub_describe(struct hub *hub, const char *server, const char *tool, bool *trusts_hints);
/* "labels" of the server's entry, or NULL; valid as long. */
const char *hub_labels(struct hub *hub, const char *server);

/*
 * Searches the tools in the background. Calls fn once, unless the search is cancelled, with what
 * tool_search() appends (tools/tool-search.h); NULL: there was no memory, or the answer was too long. *ret is
 * valid until then. If no thread can be started, fn is called before this returns. Returns 0 or -ENOMEM.
 */
int hub_search(struct hub *hub, const struct config_profile *profile, const char *query, size_t n,
               size_t limit, void (*fn)(void *data, const char *found, size_t length), void *data,
               void **ret);
void hub_search_cancel(struct hub_search *search);
