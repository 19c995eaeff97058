/*
 * A session: a name, its sandbox while it has one, and a queue of cells that run one after another.
 *
 * A session outlives its sandbox, so that the next call can say what was lost and why. sessions.h
 * creates and finds sessions and passes the monitor's answers to them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "rpc/monitor-messages.h"

struct session;
struct session_context;

int session_new(struct session **ret, const struct session_context *context, const char *name,
                struct error *err);
/* Frees waiting cells without calling their done(). */
struct session *session_free(struct session *session);

/* The monitor's answers; those that do not fit the state are ignored. Takes ownership of fds. */
void session_started(struct session *session, uint32_t target, const int fds[SESSION_FDS]);
void session_ended(struct session *session, const struct monitor_ended *ended);
void session_counted(struct session *session, const struct monitor_counted *counted);
void session_cleared(struct session *session, const struct monitor_ended *ended,
                     const int fds[SESSION_COUNTERS]);

/* Ends the sandbox now, or as soon as it exists. restart: another sandbox is created then. */
void session_end_by_owner(struct session *session, bool restart);

/* Stops or resumes reading the session's output, for a reader that is slower than the code. */
void session_pause_output(struct session *session, bool paused);
