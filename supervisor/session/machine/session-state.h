/* The states of a session, and how long it is in them. */
#pragma once

/* In this order: the sandbox exists from IDLE on, and its worker is usable up to INTERRUPTING. */
enum session_state {
        SESSION_NONE,       /* no sandbox */
        SESSION_QUEUED,     /* waits until a spare sandbox has ended and left its place */
        SESSION_CREATING,   /* a sandbox is requested */
        SESSION_DISCARDING, /* the requested sandbox is killed as soon as it exists */
        SESSION_IDLE,       /* waits for a cell */
        SESSION_KEEPING,    /* idle; a copy is requested from the worker, and no cell is started */
        SESSION_FREEZING,   /* idle; the monitor is freezing the sandbox */
        SESSION_FROZEN,     /* idle; the monitor has frozen the sandbox */
        SESSION_SWEEPING, /* idle; init is ending what an interrupted cell has started: no cell is started */
        SESSION_SETTLING,     /* idle; a late interrupt may come, so no cell is started */
        SESSION_RUNNING,      /* runs the first cell of the queue */
        SESSION_INTERRUPTING, /* the running cell was interrupted */
        SESSION_RESTORING,    /* the monitor is killing the worker: its copy takes its place */
        SESSION_WAKING,       /* the worker has ended, its copy was woken */
        SESSION_CLOSED,       /* the channel has ended: the worker is dead, or the code closed it */
        SESSION_KILLING,      /* the monitor is killing the sandbox */
        SESSION_DRAINING,     /* the sandbox has ended: its last frames are read */
        SESSION_STATE_MAX,
};
/* As the owner of the server sees it: some states share a name. session_shown_state() also knows whether it stands still. */
const char *session_state_name(enum session_state state);

enum {
        SESSION_CELLS_MAX = 64, /* waiting in one session */
        SESSION_UNNAMED_MS =
                60000, /* idle for so long, a session that no call has named may lose its place */
        SESSION_SWEEP_MS = 1000,      /* that a cell waits for it */
        SESSION_SETTLE_MS = 50,       /* between that and the next cell */
        SESSION_GRACE_MS = 1000,      /* between interrupt and kill */
        SESSION_REMIND_MS = 200,      /* between interrupt and reminder, and from one to the next */
        SESSION_QUIET_MS = 50,        /* between a result and the copy that is made after it */
        SESSION_KEEP_MS = 500,        /* that a cell waits for the copy */
        SESSION_CHECKPOINT_MS = 5000, /* that a cell waits for its checkpoint */
        SESSION_RESTORE_MS = 5000,    /* init gives up 2,000 after the worker's end */
        SESSION_WAKE_MS = 2000,
        SESSION_SNAPSHOT_MS = 6000,  /* that the cell of a transaction waits for the copy */
        SESSION_ROLLBACK_MS = 60000, /* until files are what they were */
        SESSION_STOPPED_MS =
                5000, /* or its timeout, if that is longer: of rollbacks of a cell, what does not count */
        SESSION_CLOSED_MS = 500, /* between the end of the channel and kill: the monitor reports the
                                    end of a worker sooner */
};
