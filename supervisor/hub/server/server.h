/*
 * One upstream MCP server: starts it, learns its tools, carries its calls. Internal to the hub.
 *
 *     STOPPED ──start──► STARTING ──pipes──► HANDSHAKE ──done──► LISTING ──last page──► READY
 *        ▲                   │                   │                  │                     │
 *        │                   └───────────────────┴── error, end, ───┘             end of its output
 *        │                                           deadline: FAILED                     ▼
 *        └────────────────────── exit status known, or awaited long enough ──────────── ENDING
 *
 * A call waits in every state but READY and FAILED, and makes a STOPPED server start. A FAILED
 * server is tried again when its delay is over. No request is sent twice.
 *
 * It is made of a connection (the pipes), a handshake, a listing and its calls, which do not know
 * each other: server.c passes on what concerns another.
 */
#pragma once

#include "supervisor/hub/server/state.h"

struct json_out;

/* Why its config makes it unusable; NULL when it is usable. */
const char *hub_server_unusable(const struct hub_server *s);
bool hub_server_is_starting(const struct hub_server *s);

/* With the tools that the cache knows. host and config are borrowed. NULL: no memory. */
struct hub_server *hub_server_new(struct hub_server_host *host, uint32_t index,
                                  const struct config_server *config);
/* Frees its calls too; their callbacks are not called. */
struct hub_server *hub_server_free(struct hub_server *s);
/* Its process is for this principal (borrowed) only; of: the server of the catalogue. */
void hub_server_set_principal(struct hub_server *s, const char *principal,
                              const struct hub_server *of);
/* Ends it, and its calls with an error that says what it did (why: a predicate); frees it. */
void hub_server_retire(struct hub_server *s, const char *why);
/* Another config, which runs the same program. */
void hub_server_set_config(struct hub_server *s, uint32_t index,
                           const struct config_server *config);
/* Requests a start that the monitor has not answered again, by the new index. */
void hub_server_ask_again(struct hub_server *s);

/* Starts it if it is STOPPED, or FAILED some time ago. */
void hub_server_start_unasked(struct hub_server *s);
/* The reports of the monitor. _started() returns whether its start was requested; if so, it takes ownership
 * of the descriptors. _failed() returns the same, and does nothing otherwise. */
bool hub_server_started(struct hub_server *s, uint32_t instance, const int fds[3]);
bool hub_server_start_failed(struct hub_server *s, const struct error *error);
/* Returns whether the instance was this server's. */
bool hub_server_ended(struct hub_server *s, uint32_t instance, int wait_status);

/* Sends a notification to the server, one for all changes within SERVER_ROOTS_MS. */
void hub_server_roots_changed(struct hub_server *s);
/* Takes over a new call: sends it, queues it, or fails it at once. */
void hub_server_call(struct hub_server *s, struct hub_call *call);

/* Appends its object (hub.h), if it runs or was restarted. */
void hub_server_put(const struct hub_server *s, struct json_out *out);
/* Its name in the config; whether it is connected. */
const char *hub_server_name(const struct hub_server *s);
bool hub_server_is_up(const struct hub_server *s);

/* Clients can be asked for more than before: the list for these may be in the cache. */
void hub_server_client_changed(struct hub_server *s);
