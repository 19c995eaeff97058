/*
 * Starts the processes that have the network of sessions (supervisor/egress/egress.h).
 *
 * One serves, the others take its place when it has ended. All start at once, because later the broker can start none: by
 * then it has read the config, and given up what the start needs. So their number bounds how often hostile bytes can end
 * one and try the next, whose memory has the same layout.
 */
#pragma once

#include "base/error.h"
#include "supervisor/broker/isolate.h"

enum { EGRESS_PROCESSES_MAX = 4 };

struct egress_process {
        int socket; /* takes struct egress_open (rpc/egress-messages.h); -1: none */
        int end;    /* a pipe: what is written to it, and its close, kills the process */
};

/* Kills it, whatever it does, and closes both. */
void egress_process_end(struct egress_process *process);

/*
 * Call before the broker has read the config, so that the process has nothing of it. It isolates itself as the broker
 * does, with a root of the resolver's files only. how: ids; filter_fd: FILTER_EGRESS, borrowed. log_fd: -1: standard
 * error. ret: *n processes,
 * from each of which comes one byte when it is ready. Returns 0, or negative errno: none has started.
 */
int egress_processes_start(const struct isolation *how, int log_fd,
                           struct egress_process ret[EGRESS_PROCESSES_MAX], size_t *n,
                           struct error *err);
