/*
 * Tasks: calls whose answer is kept and asked for later, so that they outlive their request, its connection, and
 * the time for which a client waits.
 *
 * Two forms: in 2025-11-25 the client asks for one (params.task), in 2026-07-28 the server makes one of a call that
 * takes longer than TASK_AFTER_MS if the client declares the extension io.modelcontextprotocol/tasks. A task belongs to its
 * principal and is kept until its time to live is over, counted from its creation.
 *
 * Theory of operation. A task stands between a request and its call: the call gets a reply that has the task
 * (reply.h), and reply_result() gives the answer to it. Until the client has got the task, it only passes the answer on,
 * so that errors, and calls that are quick, are answered as without it. Every request that is answered by reply_result() can be
 * a task; to be cancelled it calls task_attach().
 */
#pragma once

#include "supervisor/mcp/tasks/task.h"

void tasks_done(struct tasks *tasks);

/* Takes the reply, and replaces it by that of the call. NULL: out of memory, and the reply is as before. */
struct mcp_task *task_new(const struct mcp_request *request, uint64_t ttl_ms, struct reply *reply);
/* Whether no task of the principal makes room for another one. */
bool tasks_are_full(struct tasks *tasks);
/* Answers the request with the task; after_ms: when, unless the call is answered before. */
void task_announce(struct mcp_task *task);
void task_announce_after(struct mcp_task *task, uint64_t after_ms);
/* The peer ends: its tasks continue. */
void tasks_drop_peer(struct mcp_peer *peer);

/* ---- for the call ---- */

/* reply: the call's own, with a task; the call stays where it is until that is answered or done. */
void task_attach(struct reply *reply, const struct task_work *work, void *data);
/* The work wants to know something of the client. */
void task_asks(struct reply *reply);

/* ---- the methods tasks/… ---- */

void tasks_get(const struct mcp_request *request, struct reply *reply);
void tasks_result(const struct mcp_request *request, struct reply *reply);
void tasks_list(const struct mcp_request *request, struct reply *reply);
void tasks_update(const struct mcp_request *request, struct reply *reply);
void tasks_cancel(const struct mcp_request *request, struct reply *reply);

/* Whether a tasks/result with this id waits. cancels: notifications/cancelled. */
bool tasks_wait_is_pending(const struct mcp_peer *peer, yyjson_val *id, bool cancels);
