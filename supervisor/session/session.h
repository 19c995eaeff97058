/*
 * A session: a name, the sandbox behind it while there is one, and the cells that wait for it in
 * order.
 *
 *     none -> creating -> idle <-> running -> interrupting -> ending -> none
 *
 * A session outlives its sandbox, so that the next call on its name can say what was lost and why.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "rpc/monitor-messages.h"
#include "supervisor/session/calls.h"
#include "supervisor/session/cell.h"
#include "supervisor/session/channel.h"
#include "supervisor/session/files.h"
#include "supervisor/session/usage.h"

struct sessions;

enum session_state {
        SESSION_NONE,         /* no sandbox */
        SESSION_CREATING,     /* asked for one */
        SESSION_IDLE,         /* waits for a cell */
        SESSION_RUNNING,      /* runs the first cell */
        SESSION_INTERRUPTING, /* the first cell was told to stop */
        SESSION_ENDING,       /* the sandbox is being killed or has lost its channel */
        SESSION_STATE_MAX,
};
const char *session_state_name(enum session_state state);

enum {
        SESSION_NAME_MAX = 64,
        SESSION_CELLS_MAX = 64,  /* waiting in one session */
        SESSION_SETTLE_MS = 50,  /* after a result that an interrupt may have missed */
        SESSION_GRACE_MS = 1000, /* between interrupt and kill */
        SESSION_CLOSED_MS = 500, /* between the channel's end and kill: a death is told sooner */
};

/* Why a sandbox was told to end. */
enum session_end {
        END_NONE,
        END_TIMEOUT,
        END_CANCELLED,
        END_RESET,
        END_IDLE,
        END_CHANNEL,
        END_CLOSED,
        END_OWNER
};

struct session_stream {
        struct session *session;
        int fd; /* read end of the pipe, -1: none or at its end */
        struct event *event;
        struct capture stray; /* what came while no cell ran */
};

struct session {
        struct sessions *set;
        struct session *next;
        struct session *same_bucket; /* by name, in sessions.c */
        char name[SESSION_NAME_MAX + 1];
        enum session_state state;
        uint32_t serial; /* of the request, while creating; 0: it waits for a spare's place */
        uint32_t target; /* the monitor's number of the sandbox, from idle on */
        struct config
                *config; /* of the sandbox: a reload does not change it; NULL: there is none */
        const struct config_profile *profile; /* in it; NULL: a config without any */
        char last_profile[IMAGE_NAME_SIZE];   /* name of the last sandbox's, which the next one gets
                                                 unless the call says otherwise */
        bool fresh;                           /* the sandbox has run no cell */
        bool dead;     /* the worker is gone: its last words are being read */
        bool paused;   /* its output is not read */
        bool settling; /* an interrupt may still arrive: no cell is started */
        struct session_freezing {
                bool next;  /* the timer of an idle session is for this, not for its end */
                bool asked; /* it is to be frozen, and perhaps is already */
                bool done;  /* the monitor said so */
        } freezing;

        struct channel channel;
        struct session_stream streams[CELL_STREAMS];
        int cpu_fd, peak_fd, memory_fd; /* facts */
        struct usage_peak peak;
        struct calls calls;
        struct files files;
        uint64_t catalogue; /* version that the worker has */

        struct cell *cells; /* the first is the current one once its number is not 0 */
        size_t n_cells;
        uint64_t last_number;

        /* For the owner. */
        uint64_t born_us, used_us; /* the sandbox; the end of its last cell */
        uint64_t n_run;            /* cells that it has begun */
        struct session_last {
                char code[CELL_EXCERPT_MAX + 1];
                enum cell_status status;
                uint64_t started_us, duration_us;
        } last;
        bool wanted;   /* a sandbox is to be made though no cell waits */
        bool unwanted; /* the one that is being made is to be ended */

        struct event *kick;
        struct event *timer; /* deadline, grace, idleness or wait for death, by state */
        enum cell_status stopping_as;
        enum session_end end;
        char why[CELL_WHY_MAX];  /* why the sandbox is being ended */
        char lost[CELL_WHY_MAX]; /* why the last one is gone; told to the next call */
};

int session_new(struct session **ret, struct sessions *set, const char *name, struct error *err);
struct session *session_free(struct session *session);

/* Queues a cell; takes it. */
void session_push(struct session *session, struct cell *cell);

/* The monitor's answers. fds (taken): rpc, stdout, stderr, cpu, memory. */
void session_started(struct session *session, uint32_t target, const int fds[SESSION_FDS]);
void session_failed(struct session *session, const struct error *error);
void session_ended(struct session *session, const struct monitor_ended *ended);

/* It waited for a place, and now there may be one. */
void session_retry(struct session *session);

/* Ends the sandbox now, or as soon as it is made; again: and has another made. */
void session_end_by_owner(struct session *session, bool again);

/* Handler of the frame table. */
int session_on_result(struct session *session, const struct frame_header *header,
                      const char *payload, struct error *err);
int session_on_log(struct session *session, const struct frame_header *header, const char *payload,
                   struct error *err);

/* Sends the catalogue when the worker's is older. */
void session_send_catalogue(struct session *session);

/* The cell that runs, or NULL. */
static inline struct cell *session_current(const struct session *session)
{
        return session->cells && session->cells->number != 0 ? session->cells : NULL;
}

/* For the log; cell may be NULL. */
static inline struct log_ids session_log_ids(const struct session *session, const struct cell *cell)
{
        return (struct log_ids){.session = session->name,
                                .request = cell && *cell->request ? cell->request : NULL,
                                .cell = cell ? cell->number : 0};
}

/* Stops a cell: it leaves the queue, or is interrupted and, when that does not help, killed. done()
 * follows with status cancelled. */
void cell_cancel(struct cell *cell);

/* The same without waiting. */
void cell_kill(struct cell *cell);

/* Whether the session's output is read; for live output that its reader does not take. */
void session_pause_output(struct session *session, bool paused);
