/* The monitor's upstream servers. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "policy/config/config.h"
#include "rpc/monitor-messages.h"

struct monitor;

void monitor_upstreams_done(struct monitor *m);
void monitor_upstream_start(struct monitor *m, const struct monitor_request *request);
void monitor_upstream_stop(struct monitor *m, const struct monitor_request *request);
/* Starts a program of ours in a slot of installers; its config needs no expansion. */
int monitor_upstream_start_installer(struct monitor *m, const struct config_server *program,
                                     uint32_t serial, struct error *err);
