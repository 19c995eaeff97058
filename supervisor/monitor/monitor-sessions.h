/* The monitor's sessions: their slots, the broker's requests about them, and their profiles. */
#pragma once

#include "base/error.h"
#include "policy/config/config.h"
#include "rpc/monitor-messages.h"

struct monitor;

int monitor_sessions_init(struct monitor *m, struct error *err);
void monitor_sessions_done(struct monitor *m);
/* Replaces the profiles by those of a config. On failure nothing changes. */
int monitor_sessions_load(struct monitor *m, struct config *config, struct error *err);
/* Starts the early profile's template. */
void monitor_sessions_prepare(struct monitor *m);
/* Handles MONITOR_SESSION_CREATE. */
void monitor_session_create(struct monitor *m, const struct monitor_request *request);
/* Handles a valid request about one session. */
void monitor_session_request(struct monitor *m, const struct monitor_request *request);
