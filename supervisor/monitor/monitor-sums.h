/*
 * The sums of all sandboxes, of the sandboxes of each principal, and of all upstream servers. An installer counts as a sandbox
 * of the principal whose session asked for it.
 *
 * Theory of operation. Control groups hold both sums where there are any ("sandboxes", and a principal's group in it). Without
 * groups the samples of memory-watch.h are added up, and a session is killed when they are above a sum: the largest of all if no
 * principal is above its share.
 *
 * A request for a session is refused when a sum is reached. If that is the sum of all, and the principal is below its even
 * share, the refusal names the principal that is most above its share: a session of that one ends first. When the sum of all
 * is almost reached, the largest session of that principal is killed, before the kernel chooses a process of any principal.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "rpc/monitor-messages.h"

struct monitor;

/* Call when the config and the control groups exist, at the start and after each change of one of them. */
int monitor_sums_set(struct monitor *m, struct error *err);
uint64_t monitor_sums_memory(const struct monitor *m); /* of all sandboxes, in bytes */
uint64_t monitor_sums_servers(
        const struct monitor *m); /* of all upstream servers, where there are control groups */
void monitor_sums_done(struct monitor *m);

/* Whether the principal may have one more session or installer. -EDQUOT: no; *first: the principal that has to end a session
 * first, or 0. Makes the principal's group. */
int monitor_sums_admit(struct monitor *m, const struct monitor_principal *principal,
                       uint32_t *first, struct error *err);

/* Whether the pool may have one more ready sandbox of the principal, and then monitor_spares() of them. -EDQUOT: no. */
int monitor_sums_admit_spare(struct monitor *m, const struct monitor_principal *principal,
                             uint32_t spares, struct error *err);

/* How many bytes the principal may still take. */
uint64_t monitor_sums_left(struct monitor *m, const struct monitor_principal *principal);

/* Bytes; 0: none, or that of a session. */
uint64_t monitor_sums_limit(const struct monitor *m, uint32_t principal, enum monitor_limit limit);

/* PRINCIPAL_REST. */
void monitor_sums_rest(struct monitor *m, const struct monitor_request *request);
/* Call when a sandbox of this principal begins to be made, is ready, was killed, or has ended. The group has its usual weight
 * while a sandbox in it is made or killed. */
void monitor_sums_weigh(struct monitor *m, uint32_t principal);

/* has_reached_sum() of struct sandbox_host. data: the monitor. */
bool monitor_sums_has_reached(void *data, uint32_t principal);

/* Whether the sandbox in this slot may keep a copy of its worker, which can become as large as the worker. A quarter of the sum
 * stays free for what runs. */
bool monitor_sums_allow_copy(struct monitor *m, uint32_t slot);

/* The samples of a session or installer, which no control group counts, have changed. */
void monitor_sums_changed(struct monitor *m);
