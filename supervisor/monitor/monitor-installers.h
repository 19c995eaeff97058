/* The program that installs packages for sessions. */
#pragma once

#include "rpc/monitor-messages.h"

struct monitor;

/* Handles MONITOR_INSTALLER_START. */
void monitor_installer_start(struct monitor *m, const struct monitor_request *request);
