/*
 * A session: a name, its sandbox while it has one, and a queue of cells that run one after another.
 *
 * A session outlives its sandbox, so that the next call can say what was lost and why. sessions.h
 * makes and finds sessions and passes the monitor's answers to them.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "policy/config.h"
#include "rpc/monitor-messages.h"
#include "supervisor/session/cell.h"
#include "supervisor/session/sandbox-requests.h"
#include "supervisor/session/session-name.h"
#include "supervisor/session/tool-provider.h"

struct cell;
struct session;

/* In this order: the sandbox exists from IDLE on, and its worker is usable up to INTERRUPTING. */
enum session_state {
        SESSION_NONE,       /* no sandbox */
        SESSION_QUEUED,     /* waits until a spare sandbox has ended and left its place */
        SESSION_CREATING,   /* a sandbox is requested */
        SESSION_DISCARDING, /* the requested sandbox is killed as soon as it exists */
        SESSION_IDLE,       /* waits for a cell */
        SESSION_KEEPING,    /* idle; the worker was asked to make a copy, and no cell is started */
        SESSION_FREEZING,   /* idle; the monitor was asked to freeze the sandbox */
        SESSION_FROZEN,     /* idle; the monitor has frozen the sandbox */
        SESSION_SETTLING,   /* idle; a late interrupt may still arrive, so no cell is started */
        SESSION_RUNNING,    /* runs the first cell of the queue */
        SESSION_INTERRUPTING, /* the running cell was interrupted */
        SESSION_RESTORING, /* the monitor was asked to kill the worker: its copy takes its place */
        SESSION_WAKING,    /* the worker has ended, its copy was woken */
        SESSION_CLOSED,    /* the channel has ended: the worker is dead, or the code closed it */
        SESSION_KILLING,   /* the monitor was asked to kill the sandbox */
        SESSION_DRAINING,  /* the sandbox has ended: its last frames are read */
        SESSION_STATE_MAX,
};
/* As the owner of the server sees it: some states share a name. */
const char *session_state_name(enum session_state state);

enum {
        SESSION_CELLS_MAX = 64,       /* waiting in one session */
        SESSION_SETTLE_MS = 50,       /* between a result and the next cell, for a late interrupt */
        SESSION_GRACE_MS = 1000,      /* between interrupt and kill */
        SESSION_REMIND_MS = 200,      /* between interrupt and reminder, and from one to the next */
        SESSION_QUIET_MS = 50,        /* between a result and the copy that is made after it */
        SESSION_KEEP_MS = 500,        /* that a cell waits for the copy */
        SESSION_CHECKPOINT_MS = 5000, /* the same, if it is to be a checkpoint */
        SESSION_RESTORE_MS = 5000,    /* init gives up 2,000 after the worker's end */
        SESSION_WAKE_MS = 2000,
        SESSION_SNAPSHOT_MS = 6000,  /* that the cell of a transaction waits for the copy */
        SESSION_ROLLBACK_MS = 60000, /* until files are what they were */
        SESSION_STOPPED_MS =
                5000, /* or its timeout, if that is longer: of rollbacks of a cell, what does not count */
        SESSION_CLOSED_MS = 500, /* between the end of the channel and kill: the monitor reports the
                                    death of a worker sooner */
};

/* The owner's functions. They must not free the session. */
struct session_owner {
        void *data;
        /* Gets a sandbox of this profile of the newest config. Returns an enum sandbox_offer, after
         * SANDBOX_NONE followed by session_place_free(); or negative errno. */
        int (*get_sandbox)(void *data, size_t profile, struct sandbox_offered *ret,
                           struct error *err);
        void (*state_changed)(void *data, const struct session *session, enum session_state before);
        /* The session of this key, or NULL. */
        struct session *(*find)(void *data, const char *key);
};

/* What the sessions of one owner share; the owner keeps it up to date. */
struct session_context {
        struct event_base *base;
        struct config *config; /* the newest: sandboxes are made under it */
        struct monitor_hello hello;
        struct sandbox_requests requests;
        struct tool_provider tools;
        struct session_owner owner;
};

int session_new(struct session **ret, const struct session_context *context, const char *name,
                struct error *err);
/* Frees waiting cells without calling their done(). */
struct session *session_free(struct session *session);

const char *session_name(const struct session *session);
enum session_state session_state(const struct session *session);
bool session_has_cells(const struct session *session);
bool session_is_full(const struct session *session); /* SESSION_CELLS_MAX cells wait */
/* The profile of the sandbox, or NULL. */
const struct config_profile *session_profile(const struct session *session);
/* Whether the answer to the request with this serial is for this session. */
bool session_awaits(const struct session *session, uint32_t serial);
/* Whether its sandbox has this number. */
bool session_has_target(const struct session *session, uint32_t target);
/* The index of the profile of a sandbox that is requested under this config, else -1. */
int session_profile_in(const struct session *session, const struct config *config);

/* A new session is to begin as a branch of another one (docs/branches.md), of this name; from: NULL, there is
 * none; checkpoint: of it, NULL: as it is now. The cell is what it was called for, and is to be pushed after this. Returns 0 or negative errno. */
int session_branch(struct session *to, struct session *from, const char *name,
                   const char *checkpoint, struct cell *cell, struct error *err);

/* Queues a cell; takes ownership. */
void session_push(struct session *session, struct cell *cell);

/* The monitor's answers; those that do not fit the state are ignored. Takes ownership of fds. */
void session_started(struct session *session, uint32_t target, const int fds[SESSION_FDS]);
void session_failed(struct session *session, const struct error *error);
void session_ended(struct session *session, const struct monitor_ended *ended);
void session_frozen(struct session *session);
void session_kept(struct session *session, const struct error *error);
void session_gone(struct session *session, uint32_t pid);
void session_counted(struct session *session, const struct monitor_counted *counted);
void session_memory(struct session *session, uint64_t bytes);
void session_cleared(struct session *session, const struct monitor_ended *ended,
                     const int fds[SESSION_COUNTERS]);

/* A session that is QUEUED asks for a sandbox again. */
void session_place_free(struct session *session);

/* Ends the sandbox now, or as soon as it exists. restart: another sandbox is made then. */
void session_end_by_owner(struct session *session, bool restart);

/* Goes back to a checkpoint, or, if it is NULL, to the state before the call that runs, or to the newest
 * checkpoint if none does. */
int session_undo_by_owner(struct session *session, const char *checkpoint, struct error *err);

/* The server's owner has copied a file to /workspace of the session: the next result says so. */
void session_note_file(struct session *session, const char *path);
/* Whether it belongs to published code, and ends with its cell. */
bool session_is_single(const struct session *session);

/* Sends the catalogue to the worker if a cell runs there and its version is older. */
void session_catalogue_changed(struct session *session);

/* What a session does, for a call that cannot wait for it. */
enum { SESSION_LINE_MAX = 200 };
struct session_running {
        char code[CELL_EXCERPT_MAX + 1]; /* its first line, cut; "": no cell runs */
        uint64_t duration_us;
        char line[SESSION_LINE_MAX +
                  1]; /* the last that it has printed: of stdout, else of stderr; cut */
};
void session_describe_running(const struct session *session, struct session_running *ret);
/* Why the last sandbox ended, until the next call, or "". */
const char *session_lost(const struct session *session);

/* Appends a JSON object with the session's state (sessions_append_list()). */
int session_append_status(const struct session *session, struct buffer *to);

/* Appends the receipt of one of the last cells, as JSON (receipts.h). -ENOENT: there is none. */
int session_append_receipt(const struct session *session, uint64_t cell, struct buffer *to);

/* Stops or resumes reading the session's output, for a reader that is slower than the code. */
void session_pause_output(struct session *session, bool paused);
