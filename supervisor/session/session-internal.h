/* What the files share that make up a session: its struct, its events, their functions. */
#pragma once

#include "base/log.h"
#include "supervisor/session/calls.h"
#include "supervisor/session/cell.h"
#include "supervisor/session/channel.h"
#include "supervisor/session/files.h"
#include "supervisor/session/input.h"
#include "supervisor/session/receipts.h"
#include "supervisor/session/session-network.h"
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
        EVENT_WAKE,    /* the queue, the state or `restart` has changed */
        EVENT_PLACE,   /* a place among the live sessions is free */
        EVENT_STARTED, /* the monitor has made the sandbox */
        EVENT_FAILED,  /* the monitor could not make it */
        EVENT_ENDED,   /* the monitor reports the end of the sandbox */
        EVENT_FROZEN,  /* the monitor has frozen the sandbox */
        EVENT_COPY,    /* there is the copy that was asked for, or it is known that there is none */
        EVENT_CLEARED, /* the monitor reports the end of the worker, and that a copy sleeps */
        EVENT_RESTORED,  /* the copy is the worker */
        EVENT_BACK,      /* the session is to go back to the copy that is wanted */
        EVENT_GONE,      /* that copy has ended */
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
        const struct monitor_ended *ended; /* ENDED, CLEARED */
        const struct error *error;         /* FAILED, CLOSED */
};

/* A sleeping copy of the worker. */
struct session_copy {
        uint32_t pid; /* in the sandbox */
        uint64_t id;  /* of the KEEP that it answers */
        uint64_t of;  /* the cell at whose end it was made */
        uint64_t made_us;
        bool is_aside; /* of a block: takes the worker's place only if it is named */
        char name[SESSION_NAME_MAX + 1]; /* of the checkpoint, or "" */
        bool has_door;                   /* session-door.c */
        int door;
};

/* Why a session goes back to a copy although its worker has not ended. */
enum session_back {
        BACK_NOT,
        BACK_CELL,  /* the next cell asks for it */
        BACK_UNDO,  /* the code has called undo() */
        BACK_OWNER, /* the server's owner asks for it */
        BACK_BLOCK, /* a block of the cell has failed; the cell goes on where the block began */
};

enum { SESSION_COPIES_MAX = CONFIG_CHECKPOINTS_MAX + 3 };

/* The sleeping copies of the worker. At most one of a cell's end has no name, and one is aside. */
struct session_copies {
        struct session_copy list[SESSION_COPIES_MAX]; /* the newest last */
        size_t n;
        struct session_copy asked;             /* by the last KEEP: its id is 0 if there was none */
        uint32_t instead[MONITOR_INSTEAD_MAX]; /* pids of those that it replaces; 0: none */
        uint64_t asked_after;                  /* number of the last cell as it was sent */
        bool is_awaited;                       /* the worker's answer */
        bool is_offered;                       /* the monitor's answer */
        bool is_told;      /* a result has said that there is none of its cell */
        bool is_restoring; /* the worker has ended; the outcome of its cell is known */
        enum session_back back;
        uint64_t query;  /* of BACK_UNDO and BACK_BLOCK: it is answered if the copy is gone */
        uint64_t wanted; /* id of the copy to go back to; 0: the newest, as at a death */
        struct session_copy woken; /* takes the worker's place */
        bool rolls_back;           /* it was asked to roll files back */
        char note[CELL_NOTE_MAX];  /* for the next result: why there is none */
        char lost[CELL_WHY_MAX];   /* between two cells: why it was restored, and to what */
};

/* Of the cell that is the next one or runs (session-transaction.c). */
struct session_transaction {
        enum {
                TRANSACTION_NONE,
                TRANSACTION_ASKED,   /* for the copy to which a failure goes back */
                TRANSACTION_READY,   /* there is that copy */
                TRANSACTION_REFUSED, /* there is none; why */
                TRANSACTION_RUNNING,
        } state;
        uint64_t copy; /* its id */
        char why[CELL_NOTE_MAX];
};

/* What the server's owner has done since the client's last call (session-owner.c). */
struct session_owners {
        uint64_t cells;                  /* of `cloister exec` that have begun and ended */
        char code[CELL_EXCERPT_MAX + 1]; /* of the last one */
        char end[CELL_WHY_MAX]; /* why that one did not end normally, and what followed, or "" */
        bool is_first;  /* such a cell was the first of the sandbox: for the client it is new */
        uint64_t files; /* that were copied to /workspace */
        char file[CELL_PATH_MAX + 1]; /* the last of them */
};

/* Processes and threads that the sandbox has made: session-tasks.c. */
struct session_tasks {
        uint32_t last;      /* number of the newest, as reported last */
        uint64_t uncounted; /* made since then, and in no receipt yet */
        uint64_t total, asked_us, asked_for;
        uint64_t looked_after; /* the cell after which the session has rested */
        bool is_look_wanted;   /* then: once there is an answer */
        uint64_t from;         /* the first cell without a number as the sandbox ended; 0: none */
        bool is_asked, is_known, is_wrapped;
        bool is_over; /* the end of the sandbox was reported, with their number */
};

/* What its processes have in use where no control group counts it, as the monitor samples it. 0: unknown. */
struct session_sampled {
        uint64_t now, most;       /* most: since the running cell began */
        uint64_t grown, grown_us; /* the interpreter's own peak, when it has last grown */
};

/* Of the cell that runs: `with transaction():` (session-block.c). */
struct session_block {
        enum {
                BLOCK_NONE,
                BLOCK_WAITING, /* for the monitor's answer about an earlier copy */
                BLOCK_ASKED,   /* the worker, for a copy */
                BLOCK_OFFERED, /* the monitor is asked */
                BLOCK_REFUSED, /* there is no copy: why */
                BLOCK_OPEN,
        } state;
        bool is_left;        /* before it was open */
        bool is_interrupted; /* what it has raised says that the cell was interrupted */
        uint64_t query;      /* that waits for an answer; 0: none */
        uint64_t copy;       /* its id */
        uint64_t began_us;   /* also of the one that is being rolled back */
        char why[CELL_NOTE_MAX];
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
        int changes_fd;                 /* init writes which files have changed; -1: none */
        uint64_t process_peak;          /* at the end of the last cell */
        struct session_network network;
        struct calls calls;
        struct session_input input;
        struct files files;
        uint64_t catalogue; /* version that the worker has */

        struct cell *cells; /* the first one runs if its number is not 0 */
        size_t n_cells;
        uint64_t last_number;
        uint64_t state_of; /* the cell at whose end the variables are what they are */
        struct session_copies copy;
        struct session_transaction transaction;
        struct session_owners owners;
        struct session_block block;

        unsigned n_installs;       /* that the sandbox has asked for */
        uint64_t born_us, used_us; /* start of the sandbox, end of its last cell */
        uint64_t n_run;            /* cells that this sandbox has started */
        struct session_last {
                char code[CELL_EXCERPT_MAX + 1];
                enum cell_status status;
                uint64_t started_us, ended_us, duration_us, cpu_us, memory_peak;
                struct session_traffic {
                        uint64_t calls, sent, received, output; /* bytes but for calls */
                } traffic;
        } last;
        struct session_traffic traffic; /* of all its cells */
        struct receipts receipts;
        struct session_tasks tasks;
        struct session_sampled sampled;
        uint64_t memory_peak; /* before the counter was reset */
        bool peak_is_reset;   /* it began again with the cell that runs */

        struct event *wake;           /* handles EVENT_WAKE from the event loop */
        struct event *timer;          /* its meaning follows from the state */
        struct event *remind;         /* in SESSION_INTERRUPTING */
        bool is_reminded;             /* the worker, of the interrupt of the cell that runs */
        uint64_t branched_until_us;   /* a checkpoint is written until then: it is not frozen */
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

/* Sends another signal to a worker that was interrupted and whose cell has not ended yet. */
void session_remind(struct session *session);

/* Has the event loop handle EVENT_WAKE. */
void session_wake(struct session *session);

/* Drops all that belongs to the sandbox; the state is SESSION_NONE then. */
void session_forget_sandbox(struct session *session);

/* Thaws a frozen session because its worker is about to get a frame. */
void session_thaw(struct session *session);

#define SESSION_NOT_TAKEN_BACK "the state could not be taken back: code has ended the copy of it"
#define SESSION_ENDED_BY_OWNER "its owner ended it with 'cloister sessions'"

/* For the files of the state machine: session-states.c, session-start.c, session-copy.c,
 * session-restore.c, session-checkpoint.c, session-end.c. */
void session_enter(struct session *session, enum session_state state);
void session_kill_sandbox(struct session *session, enum session_end end, const char *why);
/* The running cell waits for a restore: its time stands still. */
void session_pause_cell(struct session *session);
/* It goes on. */
void session_resume_cell(struct session *session);
/* The running cell has a result. Does not change the state. */
struct cell *session_complete_cell(struct session *session);
void session_bury(struct session *session, const struct session_details *details);
void session_drain_and_bury(struct session *session, const struct session_details *details);

/* session-start.c */
void session_get_sandbox(struct session *session, const struct session_details *details);
void session_get_sandbox_again(struct session *session, const struct session_details *details);
void session_take_sandbox(struct session *session, const struct session_details *details);
void session_discard_sandbox(struct session *session, const struct session_details *details);
void session_discard_when_made(struct session *session, const struct session_details *details);
void session_note_failure(struct session *session, const struct session_details *details);

/* session-copy.c */
bool session_copy_is_due(const struct session *session);
/* Asks for a copy of the present state, with the name of a checkpoint or "". */
void session_ask_copy(struct session *session, const char *name);
/* The newest copy, or NULL. */
struct session_copy *session_newest_copy(struct session *session);
void session_forget_copy(struct session *session, struct session_copy *copy);
void session_forget_copies(struct session *session);
/* A cell starts: says once why there is no copy. */
void session_copy_note(struct session *session, struct cell *cell);
void session_leave_keeping(struct session *session, const struct session_details *details);
void session_give_up_keeping(struct session *session, const struct session_details *details);

/* session-restore.c */
/* Has the newest copy take the place of a worker that does not stop. Returns false if there is none. */
bool session_restore_newest(struct session *session);
/* Has the copy that is wanted take its place (EVENT_BACK). */
void session_go_back(struct session *session, const struct session_details *details);
void session_cannot_go_back(struct session *session, const struct session_details *details);
void session_take_cleared(struct session *session, const struct session_details *details);
void session_take_cleared_again(struct session *session, const struct session_details *details);
void session_bury_woken(struct session *session, const struct session_details *details);
void session_take_restored(struct session *session, const struct session_details *details);
void session_give_up_restore(struct session *session, const struct session_details *details);

/* session-checkpoint.c */
/* Whether the first cell can be sent now. Else it was refused, or goes back to a checkpoint first. */
bool session_is_prepared(struct session *session);
/* The cell has ended and asks for a checkpoint. Returns false if it ends without one. */
bool session_make_checkpoint(struct session *session, struct cell *cell);
void session_say_no_checkpoint(struct cell *cell, const char *why);
/* The frame QUERY for undo(): answers it only if there is nothing to go back to. */
void session_on_undo(struct session *session, uint64_t query);
struct session_copy *session_find_checkpoint(struct session *session, const char *name);
/* "there are a, b", or "there is none". Returns their number. */
size_t session_list_checkpoints(const struct session *session, char *to, size_t size);

/* session-changes.c */
/* Reads what init has written, for the receipts of the cells up to this one. */
void session_take_changes(struct session *session, uint64_t to);

/* session-tasks.c */
void session_tasks_open(struct session *session);
/* A cell has ended and has its receipt. */
void session_tasks_ask(struct session *session, const struct cell *cell);
/* The files that a branch begins with are none that its first cell has made. */
void session_tasks_begin(struct session *session, const struct cell *load);
/* Whether the session rests for the first time since its last cell; then asks for the files that were not looked at. */
bool session_look_is_due(const struct session *session);
void session_look(struct session *session);
/* The worker, or the sandbox, has ended. */
void session_tasks_end(struct session *session, const struct monitor_ended *ended);

/* session-door.c */
/* Before its KEEP. If it cannot have one, it has none. */
void session_send_door(struct session *session, struct session_copy *asked);
/* fd: where its process is to write. */
int session_ask_to_write(struct session_copy *copy, int fd, struct error *err);
void session_close_door(struct session_copy *copy);

/* session-branch.c */
/* Sends the frame of a cell that is no code. */
int session_send_branch(struct session *session, struct cell *cell);
/* That has failed. */
void session_branch_failed(struct session *session, struct cell *cell);

/* The worker's reason for making no copy as text, or NULL. */
const char *session_copy_refusal(const char *why);
/* Sends KEEP. files: -1, or how many bytes of files the copy may hold. Returns whether it was sent. */
bool session_send_keep(struct session *session, const char *name, int64_t files);
/* The copy with this id, or NULL. */
struct session_copy *session_find_copy(struct session *session, uint64_t id);
/* Appends names that the worker has sent, as ": a, b and 3 more"; total: of them. */
void session_append_names(yyjson_val *names, int64_t total, char *to, size_t size);
/* Appends how many threads and processes are gone. */
void session_append_gone(yyjson_val *root, char *to, size_t size);

/* session-transaction.c */
/* Whether the first cell may start now. If not, it waits for a copy, or it was refused. */
bool session_begin_transaction(struct session *session);
/* There is the copy that was asked for, or none: why. */
void session_end_asking(struct session *session, const char *why);
/* The running cell has a result. Returns whether it is rolled back; else its transaction has ended. */
bool session_roll_back(struct session *session, struct cell *cell);
/* The copy has ended before. Returns whether a cell was to be rolled back: it ends. */
bool session_cannot_roll_back(struct session *session);
/* Whether the running cell has a result and is rolled back. */
static inline bool session_is_failing(const struct session *session)
{
        const struct cell *cell = session_current(session);

        return cell && cell->has_result && session->transaction.state == TRANSACTION_RUNNING;
}
/* The worker has ended, and copy.woken takes its place. Returns whether files are rolled back too. */
bool session_is_rolling_back(const struct session *session);
/* "rolled back: ..." what: is as before it. has_calls: that are not taken back. root: of RESTORED. */
void session_describe_rollback(const char *what, bool has_calls, yyjson_val *root,
                               char to[CELL_WHY_MAX]);
/* Of contents of files that a copy may hold now. */
int64_t session_snapshot_bytes(const struct session *session);

/* session-block.c */
/* The frame QUERY of a transaction. */
int session_on_block(struct session *session, uint64_t query, yyjson_val *root, struct error *err);
/* The worker has made the copy that is aside, or says why not. */
void session_block_kept(struct session *session, uint32_t pid, const char *why);
/* The monitor has taken it, or not: why. */
void session_block_taken(struct session *session, const char *why);
/* It has answered about another copy. */
void session_block_retry(struct session *session);
/* The block, or its cell, has ended. */
void session_end_block(struct session *session);
/* The worker has ended, and with it all copies that are aside. */
void session_forget_blocks(struct session *session);
/* Whether the cell goes on where its block began, with copy.woken. */
bool session_is_rolling_block_back(const struct session *session);
/* The block has failed, and its copy has ended: the cell goes on in the worker. */
void session_block_not_taken_back(struct session *session);
/* Takes what RESTORED says of it. */
void session_note_block(struct session *session, yyjson_val *root);

/* Sends the catalogue if the worker's version is older. */
void session_send_catalogue(struct session *session);

/* session-owner.c */
/* A cell begins: one of the client's says what the owner has done. Returns whether the sandbox is new for it. */
bool session_note_owner(struct session *session, struct cell *cell);
/* A cell that had begun has ended. */
void session_note_owners_end(struct session *session, const struct cell *cell);

/* Handlers of the frame table. */
int session_on_result(struct session *session, const struct frame_header *header,
                      struct frame_body *body, struct error *err);
int session_on_display(struct session *session, const struct frame_header *header,
                       struct frame_body *body, struct error *err);
int session_on_progress(struct session *session, const struct frame_header *header,
                        struct frame_body *body, struct error *err);
int session_on_log(struct session *session, const struct frame_header *header,
                   struct frame_body *body, struct error *err);
int session_on_kept(struct session *session, const struct frame_header *header,
                    struct frame_body *body, struct error *err);
int session_on_restored(struct session *session, const struct frame_header *header,
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
