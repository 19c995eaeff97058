/*
 * A server as its service manager sees it: ready, reloading, draining, responding.
 *
 * The monitor is the main process of the unit, and tells systemd (notify.h) what the broker reports by numbers. It sends
 * WATCHDOG=1 only after the broker has answered its ping, so that a broker whose loop hangs is restarted with the whole unit.
 */
#pragma once

#include "rpc/monitor-messages.h"

struct monitor;

/* Before the broker starts. */
void monitor_service_init(struct monitor *m);
/* In the loop: the watchdog begins. */
int monitor_service_watch(struct monitor *m, struct error *err);
void monitor_service_done(struct monitor *m);

/* SIGHUP has arrived: the broker begins a reload. */
void monitor_service_hangup(struct monitor *m);
/* SIGTERM has arrived: the unit stops, in `seconds` seconds at most. */
void monitor_service_stopping(const struct monitor *m, uint64_t seconds);

/* Requests of the broker (rpc/monitor-messages.def). */
void monitor_service_ready(struct monitor *m, const struct monitor_request *request);
void monitor_service_draining(struct monitor *m, const struct monitor_request *request);
void monitor_service_alive(struct monitor *m, const struct monitor_request *request);
void monitor_service_reload(struct monitor *m, const struct monitor_request *request);
void monitor_service_reloaded(struct monitor *m, const struct monitor_request *request);
