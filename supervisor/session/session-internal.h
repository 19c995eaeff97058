/* What the files share that make up a session: its struct, its events, their functions. */
#pragma once

#include "base/log.h"
#include "supervisor/session/calls.h"
#include "supervisor/session/cell.h"
#include "supervisor/session/channel.h"
#include "supervisor/session/files.h"
#include "supervisor/session/session.h"
#include "supervisor/session/usage.h"

/* Why a sandbox was killed. */
enum session_end {
        END_NONE, /* it was not */
        END_TIMEOUT,
        END_CANCELLED,
        END_RESET,
        END_IDLE,
        END_PROTOCOL, /* the worker broke the protocol */
        END_CLOSED,   /* the channel ended, and the monitor reported no death */
        END_OWNER,
        SESSION_END_MAX,
};

enum session_event {
        EVENT_WAKE,      /* the queue, the state or `restart` has changed */
        EVENT_PLACE,     /* a place among the live sessions is free */
        EVENT_STARTED,   /* the monitor has made the sandbox */
        EVENT_FAILED,    /* the monitor could not make it */
        EVENT_ENDED,     /* the monitor reports the end of the sandbox */
        EVENT_FROZEN,    /* the monitor has frozen the sandbox */
        EVENT_TIMER,     /* the state's time is over */
        EVENT_RESULT,    /* the worker has sent a valid RESULT */
        EVENT_CLOSED,    /* the channel has ended or broke the protocol */
        EVENT_CANCEL,    /* the running cell was cancelled */
        EVENT_KILL,      /* the running cell was cancelled and must end at once */
        EVENT_OWNER_END, /* the server's owner ends the session */
        EVENT_NEEDED,    /* the worker is about to get a frame */
        SESSION_EVENT_MAX,
};

struct session_details {
        uint32_t target;                   /* STARTED */
        const int *fds;                    /* STARTED */
        const struct monitor_ended *ended; /* ENDED */
        const struct error *error;         /* FAILED, CLOSED */
};

struct session_stream {
        struct session *session;
        int fd; /* read end of the pipe; -1: none */
        struct event *event;
        struct capture stray; /* output while no cell ran */
        struct charge kept;   /* for it */
        bool has_come;        /* output, ever */
};

struct session {
        const struct session_context *context;
        char name[SESSION_KEY_MAX + 1]; /* its key (session-name.h) */
        enum session_state state;
        uint32_t serial; /* of the request, while CREATING or DISCARDING */
        uint32_t target; /* the monitor's number of the sandbox, from IDLE on */

        /* From CREATING on. */
        struct config *config;                /* a reload does not change it */
        const struct config_profile *profile; /* in it; NULL: the config has no profiles */

        char last_profile[IMAGE_NAME_SIZE]; /* of the last sandbox: the default of the next one */
        bool restart;                       /* make a sandbox although no cell waits */
        bool single;                        /* the sandbox ends with its first cell */

        struct share *share; /* what the broker keeps for it */
        struct channel channel;
        struct session_stream streams[CELL_STREAMS];
        bool output_paused;
        int cpu_fd, peak_fd, memory_fd; /* kernel counters */
        struct usage_peak peak;
        struct calls calls;
        struct files files;
        uint64_t catalogue; /* version that the worker has */

        struct cell *cells; /* the first one runs if its number is not 0 */
        size_t n_cells;
        uint64_t last_number;

        uint64_t born_us, used_us; /* start of the sandbox, end of its last cell */
        uint64_t n_run;            /* cells that this sandbox has started */
        struct session_last {
                char code[CELL_EXCERPT_MAX + 1];
                enum cell_status status;
                uint64_t started_us, duration_us;
        } last;

        struct event *wake;           /* handles EVENT_WAKE from the event loop */
        struct event *timer;          /* its meaning follows from the state */
        uint64_t due_us, left_us;     /* when it fires; what is left while the cell is held */
        enum cell_status stop_status; /* of the cell that was interrupted; CELL_OK: it was not */
        enum session_end end;
        char why[CELL_WHY_MAX];  /* why the sandbox is killed */
        char lost[CELL_WHY_MAX]; /* why the last sandbox ended, for the result of the next call */
};

/* The worker reads frames and answers. */
static inline bool session_is_usable(const struct session *session)
{
        return session->state >= SESSION_IDLE && session->state <= SESSION_INTERRUPTING;
}

/* The sandbox has not run a cell. */
static inline bool session_is_fresh(const struct session *session)
{
        return session->n_run == 0;
}

/* The cell that runs, or NULL. */
static inline struct cell *session_current(const struct session *session)
{
        return session->cells && session->cells->number != 0 ? session->cells : NULL;
}

static inline enum monitor_usage session_usage_kind(const struct session *session)
{
        return (enum monitor_usage)session->context->hello.usage;
}

/* For the log; cell may be NULL. */
static inline struct log_ids session_log_ids(const struct session *session, const struct cell *cell)
{
        return (struct log_ids){.session = session->name,
                                .request = cell && *cell->request ? cell->request : NULL,
                                .cell = cell ? cell->number : 0};
}

/* Returns whether the state has an action for the event. */
bool session_dispatch(struct session *session, enum session_event event,
                      const struct session_details *details);

/* Has the event loop handle EVENT_WAKE. */
void session_wake(struct session *session);

/* Drops all that belongs to the sandbox; the state is SESSION_NONE then. */
void session_forget_sandbox(struct session *session);

/* Thaws a frozen session because its worker is about to get a frame. */
void session_thaw(struct session *session);

/* Sends the catalogue if the worker's version is older. */
void session_send_catalogue(struct session *session);

/* Handlers of the frame table. */
int session_on_result(struct session *session, const struct frame_header *header,
                      struct frame_body *body, struct error *err);
int session_on_display(struct session *session, const struct frame_header *header,
                       struct frame_body *body, struct error *err);
int session_on_progress(struct session *session, const struct frame_header *header,
                        struct frame_body *body, struct error *err);
int session_on_log(struct session *session, const struct frame_header *header,
                   struct frame_body *body, struct error *err);

/* The queue of cells (session-cells.c). */

/* Removes a cell from the queue, calls its done() and frees it. */
void session_end_cell(struct session *session, struct cell *cell);
/* Ends a cell that was not started. */
void session_refuse_cell(struct session *session, struct cell *cell, enum cell_status status,
                         const char *type, const char *why);
/* Ends the cells that were cancelled before they were started. */
void session_drop_cancelled(struct session *session);
/* Sends the first cell to the worker. Returns 0 or negative errno; the cell counts as started in
 * any case. */
int session_send_cell(struct session *session);
/* The sandbox has ended. If it is certain that its worker has not read its first cell, and so has run
 * no code: takes the cell back into the queue, so that another sandbox runs it. Else returns false. */
bool session_take_back_cell(struct session *session);
