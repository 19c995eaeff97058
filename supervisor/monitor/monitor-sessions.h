/* The monitor's sessions: their slots, the broker's requests about them, and their profiles. */
#pragma once

#include "base/error.h"
#include "policy/config/config.h"
#include "rpc/monitor-messages.h"

struct monitor;

int monitor_sessions_init(struct monitor *m, struct error *err);
void monitor_sessions_done(struct monitor *m);
/* The profiles of a config, in place of those that there are; on failure they stay. */
int monitor_sessions_load(struct monitor *m, struct config *config, struct error *err);
/* Starts the early profile's template. */
void monitor_sessions_prepare(struct monitor *m);
void monitor_session_create(struct monitor *m, const struct monitor_request *request);
void monitor_session_interrupt(struct monitor *m, const struct monitor_request *request);
void monitor_session_kill(struct monitor *m, const struct monitor_request *request);
void monitor_session_freeze(struct monitor *m, const struct monitor_request *request);
void monitor_session_thaw(struct monitor *m, const struct monitor_request *request);
void monitor_session_keep(struct monitor *m, const struct monitor_request *request);
void monitor_session_restore(struct monitor *m, const struct monitor_request *request);
void monitor_session_count(struct monitor *m, const struct monitor_request *request);
void monitor_session_wake(struct monitor *m, const struct monitor_request *request);
void monitor_session_drop(struct monitor *m, const struct monitor_request *request);
