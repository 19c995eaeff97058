/*
 * The MCP server: messages of clients (peer.h) in, messages to sinks (sink.h) out. It uses no
 * descriptors.
 *
 * It supports the revisions 2024-11-05 to 2025-11-25, which begin with initialize, and 2026-07-28,
 * whose requests are independent, on one connection in any order (request.h). initialize,
 * server/discover and tools/list are answered at once, without waiting for sandboxes or upstream
 * servers; a call of run_python becomes a cell.
 */
#pragma once

#include <event2/event.h>

#include "base/error.h"
#include "policy/config/config.h"
#include "supervisor/session/sessions.h"

struct mcp_host;
struct mcp_principal;
struct mcp_server;

int mcp_server_new(struct mcp_server **ret, struct event_base *base, const struct config *config,
                   const struct tool_provider *tools, struct sessions *sessions,
                   const struct mcp_host *host, struct error *err);
/* Call after sessions_free(), which has freed the cells, and before the peers are freed. */
void mcp_server_drop_calls(struct mcp_server *server);
/* Call after the peers were freed. */
struct mcp_server *mcp_server_free(struct mcp_server *server);

/* Ends the calls and sandboxes of a principal without peers, and drops its outputs. */
void mcp_server_forget(struct mcp_server *server, struct mcp_principal *principal);

/* Its profile, or the config, has changed: ends its sessions under profiles that it may not use any more, and lets the others
 * forget such a profile. */
void mcp_server_restrict(struct mcp_server *server, struct mcp_principal *principal);

/* Whether a call runs, or its answer is being made. */
bool mcp_server_has_calls(const struct mcp_server *server);
/* Whether results of calls that have ended since this time (clock_us()) are kept for a later request. */
bool mcp_server_has_results(const struct mcp_server *server, uint64_t since_us);

/* Uses another config, borrowed, from now on. Running calls keep theirs. */
void mcp_server_set_config(struct mcp_server *server, const struct config *config);

/* The catalogue of tools has changed. */
void mcp_server_catalogue_changed(struct mcp_server *server);
