/* The limits of sessions: control groups or rlimits. */
#pragma once

#include "base/error.h"
#include "rpc/monitor-messages.h"

struct monitor;

int monitor_limits_init(struct monitor *m, struct error *err); /* first of all */
/* For a build, once there is a loop: waits for the answer of systemd. */
int monitor_limits_settle(struct monitor *m, struct error *err);
int monitor_limits_watch(struct monitor *m, struct error *err); /* once there is a loop */
/* Puts the monitor, the broker and what they have forked into their own control group, if there are groups. Once. */
void monitor_limits_enter(struct monitor *m);
void monitor_limits_done(struct monitor *m); /* last of all */
enum monitor_usage monitor_limits_usage(const struct monitor *m);
