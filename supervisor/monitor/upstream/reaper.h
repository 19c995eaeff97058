/*
 * The reaper: the process between the monitor and a stdio server. Forked, never exec'd. It is a
 * child subreaper, or PID 1 of the server's namespaces, so that it adopts all orphans of the server, and leads its own session, so
 * that Ctrl-C in a terminal does not reach it.
 */
#pragma once

#include <stdint.h>

#include "supervisor/monitor/upstream/upstream-exec.h"

/* Commands on the life socket, one byte each. End of file (the monitor has ended) means
 * REAPER_STOP. */
enum reaper_command { REAPER_STOP = 's', REAPER_KILL = 'k', REAPER_START = 'g' };

/* From SIGTERM to SIGKILL. */
enum { REAPER_GRACE_MS = 2000 };

struct reaper_fds {
        int life;     /* socket; only the monitor holds the other end */
        int report;   /* write end: the server's wait status (int32_t), at the end */
        int result;   /* write end: a struct error when the exec fails; closed when it succeeds */
        int stdio[3]; /* the server's descriptors 0, 1 and 2 */
};

/* After REAPER_START, starts the server, waits for its end, ends all its processes. Never returns. */
_Noreturn void reaper_run(const struct reaper_fds *fds, const struct upstream_launch *launch);
