/*
 * The processes that have the network of sessions (supervisor/egress/egress.h): starts them, and passes one of them the
 * listeners and policies of sessions.
 *
 * One serves, the others wait. When it ends, the next one takes its place, and the sessions open their networks again.
 * After the last one no session has a network, and what it connects to is refused.
 *
 * All start at once, because later the broker can start none: by then it has read the config, and given up what the start
 * needs. So their number bounds how often hostile bytes can end one and try the next, whose memory has the same layout.
 *
 * While there are sandboxes with a network, the one that serves gets a request every NETWORK_ASK_MS to show that it runs. One that has
 * not answered when NETWORK_MISSED_MAX of these times have passed is killed.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "supervisor/broker/isolate.h"
#include "supervisor/session/machine/sandbox-requests.h"

enum { NETWORK_ASK_MS = 3000, NETWORK_MISSED_MAX = 4, EGRESS_PROCESSES_MAX = 4 };

struct egress_process {
        int socket; /* takes struct egress_open (rpc/egress-messages.h); -1: none */
        int end;    /* a pipe: what is written to it, and its close, kills the process */
};

/*
 * Call before the broker has read the config, so that the process has no part of it. It isolates itself as the broker
 * does, with a root of the resolver's files only. how: ids; filter_fd: FILTER_EGRESS, borrowed. log_fd: -1: standard
 * error. ret: *n processes, from each of which comes one byte when it is ready. Returns 0, or negative errno: none has started.
 */
int egress_processes_start(const struct isolation *how, int log_fd,
                           struct egress_process ret[EGRESS_PROCESSES_MAX], size_t *n,
                           struct error *err);

struct network;

/* lost: the process that served has ended. The callee opens the network of each session again. */
struct network_owner {
        void *data;
        void (*lost)(void *data);
};

/* processes: EGRESS_PROCESSES_MAX at most, of egress_processes_start(), owned from now on. expected: a profile has a network. */
int network_new(struct network **ret, struct event_base *base,
                const struct egress_process *processes, size_t n, bool expected,
                const struct network_owner *owner, struct error *err);
struct network *network_free(struct network *network);

/* The monitor has sent the listener of this sandbox; takes ownership. */
void network_listener(struct network *network, uint32_t target, int listener);
/* The sandbox belongs to a session: its network begins, or begins again. The descriptors are borrowed. -ENETDOWN: no
 * process is left. */
int network_open(struct network *network, uint32_t target, const struct network_fds *fds,
                 struct error *err);
/* The sandbox has ended. */
void network_forget(struct network *network, uint32_t target);

/* "none" (no profile had a network at the start), "running" or "ended". */
const char *network_state(const struct network *network);
