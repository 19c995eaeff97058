/*
 * A server as its service manager sees it: ready, reloading, draining, responding.
 *
 * The monitor is the main process of the unit, and tells systemd (notify.h) what the broker reports by numbers. It sends
 * WATCHDOG=1 only when it receives a PING of the broker, so that a unit in which one of the two loops hangs is restarted.
 */
#pragma once

#include "rpc/monitor-messages.h"

struct monitor;

/* Before the broker starts. */
void monitor_service_init(struct monitor *m);
/* Milliseconds after which the service manager restarts a silent server; -1: never. */
int monitor_service_watchdog(const struct monitor *m);
void monitor_service_done(struct monitor *m);

/* SIGHUP has arrived: the broker begins a reload. */
void monitor_service_hangup(struct monitor *m);
/* SIGTERM has arrived: the unit stops, in `seconds` seconds at most. */
void monitor_service_stopping(const struct monitor *m, uint64_t seconds);

/* Requests of the broker (rpc/monitor-messages.def). */
void monitor_service_ready(struct monitor *m, const struct monitor_request *request);
void monitor_service_draining(struct monitor *m, const struct monitor_request *request);
void monitor_service_ping(struct monitor *m, const struct monitor_request *request);
void monitor_service_reload(struct monitor *m, const struct monitor_request *request);
void monitor_service_reloaded(struct monitor *m, const struct monitor_request *request);
