/* The monitor's end of the link to the broker: it sends events, and ends a broker that breaks the protocol. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "rpc/monitor-messages.h"

struct monitor;

enum { MONITOR_KILL_SECONDS = 2 }; /* after SIGTERM, or without its link, the broker is killed */

/* Sends an event to the broker, which is killed if it does not receive it in time. */
void monitor_send(struct monitor *m, const struct monitor_event *event, const int *fds, size_t n);
void monitor_send_done(struct monitor *m, uint32_t serial);
void monitor_send_failed(struct monitor *m, uint32_t serial, const struct error *error);

/* Reads no more requests: the broker has ended, or will be killed soon. */
void monitor_end_link(struct monitor *m);
/* Kills the broker, which broke the protocol. why: a clause after "the broker". */
void monitor_end_broker(struct monitor *m, const char *why);
