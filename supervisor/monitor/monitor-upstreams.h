/* The monitor's upstream servers. */
#pragma once

#include "rpc/monitor-messages.h"

struct monitor;

void monitor_upstreams_done(struct monitor *m);
void monitor_upstream_start(struct monitor *m, const struct monitor_request *request);
void monitor_upstream_stop(struct monitor *m, const struct monitor_request *request);
/* Handles MONITOR_INSTALLER_START. */
void monitor_installer_start(struct monitor *m, const struct monitor_request *request);
