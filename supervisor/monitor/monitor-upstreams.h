/* The monitor's upstream servers. */
#pragma once

#include <stdbool.h>

#include "rpc/monitor-messages.h"

struct monitor;

void monitor_upstreams_done(struct monitor *m);
void monitor_upstream_start(struct monitor *m, const struct monitor_request *request);
/* Starts the servers that were requested before the control group was known. */
void monitor_upstreams_bounds_known(struct monitor *m);
bool monitor_has_upstreams(const struct monitor *m);
void monitor_upstream_stop(struct monitor *m, const struct monitor_request *request);
/* Handles MONITOR_INSTALLER_START. */
void monitor_installer_start(struct monitor *m, const struct monitor_request *request);
