/*
 * The reaper: the process between the monitor and a stdio server. Forked, never exec'd; a child
 * subreaper in a session of its own, so that a terminal's Ctrl-C does not reach it and nothing the
 * server starts gets away.
 */
#pragma once

#include <stdint.h>

#include "supervisor/monitor/upstream/upstream-exec.h"

/* A byte on the life socket; its end (the monitor is gone) means REAPER_STOP. */
enum reaper_command { REAPER_STOP = 's', REAPER_KILL = 'k' };

/* From SIGTERM to SIGKILL. */
enum { REAPER_GRACE_MS = 2000 };

struct reaper_fds {
        int life;   /* socket; the other end is the monitor's alone */
        int report; /* write end: the server's wait status, one int32_t, when all is over */
        int result; /* write end: a struct error when the server could not be started, else its end
                     */
        int stdio[3]; /* what the server gets as 0, 1 and 2 */
};

/* Never returns: starts the server, keeps it, ends what it leaves. */
_Noreturn void reaper_run(const struct reaper_fds *fds, const struct upstream_launch *launch);
