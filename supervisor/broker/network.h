/*
 * The broker's end of the processes that have the network of sessions: passes one of them their listeners and policies.
 *
 * One serves, the others wait. When it ends, the next one takes its place, and the sessions open their networks again.
 * After the last one no session has a network, and what it connects to is refused.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct network;

/* lost: the process that served has ended. The callee opens the network of each session again. */
struct network_owner {
        void *data;
        void (*lost)(void *data);
};

/* sockets: EGRESS_PROCESSES_MAX at most, of egress_processes_start(), owned from now on. expected: a profile has a network. */
int network_new(struct network **ret, struct event_base *base, const int *sockets, size_t n,
                bool expected, const struct network_owner *owner, struct error *err);
struct network *network_free(struct network *network);

/* The monitor has sent the listener of this sandbox; takes ownership. */
void network_listener(struct network *network, uint32_t target, int listener);
/* The sandbox belongs to a session: its network begins, or begins again. The descriptors are borrowed. -ENETDOWN: no
 * process is left. */
int network_open(struct network *network, uint32_t target, int page, int leash, struct error *err);
/* The sandbox has ended. */
void network_forget(struct network *network, uint32_t target);

/* "none" (no profile had a network at the start), "running" or "ended". */
const char *network_state(const struct network *network);
