/*
 * The processes that read requests: one cloister-inject for each profile that has secrets with "to", whose values it is started with
 * (monitor-secrets.c), or hosts with "inspect".
 *
 * It runs in namespaces of its own, without a network, as the broker's user, and gives up what it has (supervisor/inject/main.c). It ends when the
 * broker closes its socket.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"

struct monitor;

enum { MONITOR_INJECTS_MAX = 64 };

/* The process for this profile of this generation of the config has ended. */
typedef void monitor_inject_ended_fn(struct monitor *m, uint32_t generation, uint32_t profile);

/* values: the pipe with the values, borrowed. *control: the broker's end of its socket; it is readable when the process is ready, or
 * has ended. Returns 0 or negative errno. */
int monitor_inject_start(struct monitor *m, uint32_t profile, int values,
                         monitor_inject_ended_fn *ended, int *control, struct error *err);
/* Kills all of them. */
void monitor_inject_done(struct monitor *m);
