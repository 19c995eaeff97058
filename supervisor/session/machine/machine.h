/*
 * The state machine of a session, and struct session.
 *
 * The machine does not know what a state does with an event: session_new() gives it the table (actions.c), whose
 * actions call the machine. An event without an action is ignored.
 *
 * Each part of struct session names the module that writes it; the other modules call its functions. Modules above
 * the machine have their own structs, of which the machine has only the addresses.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/log.h"
#include "policy/config/config.h"
#include "rpc/egress-messages.h"
#include "rpc/monitor-messages.h"
#include "supervisor/session/cell/cell.h"
#include "supervisor/session/cell/meter.h"
#include "supervisor/session/cell/receipts.h"
#include "supervisor/session/cell/streams.h"
#include "supervisor/session/channel/channel.h"
#include "supervisor/session/machine/call-counts.h"
#include "supervisor/session/machine/inject-requests.h"
#include "supervisor/session/machine/picture-provider.h"
#include "supervisor/session/machine/principal.h"
#include "supervisor/session/machine/sandbox-requests.h"
#include "supervisor/session/machine/session-labels.h"
#include "supervisor/session/machine/session-state.h"
#include "supervisor/session/machine/tool-provider.h"

struct session;

/* Why a sandbox was killed. */
enum session_end {
        END_NONE, /* it was not killed */
        END_TIMEOUT,
        END_CANCELLED,
        END_RESET,
        END_IDLE,
        END_PROTOCOL, /* the worker broke the protocol */
        END_CLOSED,   /* the channel ended, and the monitor reported no end of the worker */
        END_OWNER,
        SESSION_END_MAX,
};

enum session_event {
        EVENT_WAKE,    /* the queue, the state or `restart` has changed */
        EVENT_PLACE,   /* a place among the live sessions is free */
        EVENT_STARTED, /* the monitor has created the sandbox */
        EVENT_FAILED,  /* the monitor could not create it */
        EVENT_ENDED,   /* the monitor reports the end of the sandbox */
        EVENT_FROZEN,  /* the monitor has frozen the sandbox */
        EVENT_COPY, /* the copy that was requested exists, or it is known that it cannot be made */
        EVENT_CLEARED,   /* the monitor reports the end of the worker, and that a copy sleeps */
        EVENT_RESTORED,  /* the copy is the worker */
        EVENT_BACK,      /* the session must return to the copy that is wanted */
        EVENT_GONE,      /* that copy has ended */
        EVENT_TIMER,     /* the time of the state is over */
        EVENT_RESULT,    /* the worker has sent a valid RESULT */
        EVENT_CLOSED,    /* the channel has ended or broke the protocol */
        EVENT_CANCEL,    /* the running cell was cancelled */
        EVENT_KILL,      /* the running cell was cancelled and must end at once */
        EVENT_OWNER_END, /* the server's owner ends the session */
        EVENT_STOPPED,   /* what a call has left used its processor time, and was stopped */
        EVENT_SWEPT,     /* what an interrupted cell has started has ended */
        EVENT_NEEDED,    /* a frame is about to be sent to the worker */
        SESSION_EVENT_MAX,
};

struct session_details {
        uint32_t target;                   /* STARTED */
        const int *fds;                    /* STARTED, CLEARED */
        const struct monitor_ended *ended; /* ENDED, CLEARED */
        uint32_t stopped;                  /* STOPPED */
        const struct error *error;         /* FAILED, CLOSED, OWNER_END */
};

struct hold_request;

/* The action for each event in each state, and the time in a state before EVENT_TIMER, in ms; 0: none comes. */
struct session_table {
        void (*actions[SESSION_EVENT_MAX][SESSION_STATE_MAX])(
                struct session *session, const struct session_details *details);
        uint64_t (*time_in_state)(const struct session *session);
        bool (*may_be_left)(struct session *session, bool was_asked); /* tasks_may_be_left() */
        /* session_hold() and the others of hold.h, for what is below it. */
        int (*hold)(struct session *session, struct hold_request *request, struct error *err);
        void (*release)(struct hold_request *request);
        void (*drop_hold)(struct hold_request *request);
};

/* The owner's functions. They must not free the session. */
struct session_owner {
        void *data;
        /* Gets a sandbox of this profile of the newest config. Returns an enum sandbox_offer, after
         * SANDBOX_NONE followed by EVENT_PLACE; or negative errno. */
        int (*get_sandbox)(void *data, const struct session *session, size_t profile,
                           struct sandbox_offered *ret, struct error *err);
        void (*state_changed)(void *data, struct session *session, enum session_state before);
        /* The session of this key, or NULL. */
        struct session *(*find)(void *data, const char *key);
        /* A sandbox that was made for this session, which needs none any more. False: the owner needs it neither. */
        bool (*give_back)(void *data, const struct session *session, uint32_t target,
                          const int fds[SESSION_FDS]);
};

/* The sessions of one owner share it; the owner keeps it up to date. */
struct session_context {
        struct event_base *base;
        struct config *config; /* the newest: sandboxes are created under it */
        struct monitor_hello hello;
        struct sandbox_requests requests;
        struct tool_provider tools;
        struct picture_provider pictures; /* ask NULL: there is none, and no picture is shown */
        struct session_owner owner;
};

/* The cells in their order (queue.c). */
struct session_queue {
        struct cell *first; /* it runs if its number is not 0 */
        size_t n;
        uint64_t last_number;
        struct event *wake; /* handles EVENT_WAKE from the event loop */
};

/* The actions of the server's owner since the client's last call (outcome.c). */
struct session_owners {
        uint64_t cells;                  /* of `cloister exec` that have started and ended */
        char code[CELL_EXCERPT_MAX + 1]; /* of the last one */
        char end[CELL_WHY_MAX]; /* why that one did not end normally, and what followed, or "" */
        bool is_first;  /* such a cell was the first of the sandbox: for the client it is new */
        uint64_t files; /* that were copied to /workspace */
        char file[CELL_PATH_MAX + 1]; /* the last of them */
};

/* Processes and threads that the sandbox has created (tasks.c). */
struct session_tasks {
        uint32_t last;      /* number of the newest, as reported last */
        uint64_t uncounted; /* created since then, and in no receipt yet */
        uint64_t total, asked_us, asked_for;
        uint64_t known_for;     /* the cell after which they were counted last */
        uint64_t scanned_after; /* the cell after which the session has rested */
        bool is_scan_wanted;    /* once the answer has come */
        uint64_t from;          /* the first cell without a number as the sandbox ended; 0: none */
        bool is_asked, is_known, is_wrapped;
        bool is_over;   /* the end of the sandbox was reported, with their number */
        int changes_fd; /* init writes which files have changed; -1: none */
};

/* The network of the sandbox (network.c). */
struct session_network {
        int page;                 /* a memfd with struct egress_page; -1: there is no network */
        int lifetime_fd;          /* its end ends all connections */
        bool has_rules;           /* rules are about its connections */
        enum cell_network change; /* the next result reports it; OVER: each does */
        struct session_injected injected; /* injected.c */
        struct egress_sums all;           /* that results have reported */
        struct {
                uint32_t id;
                struct egress_sums sums;
        } reported[EGRESS_HOSTS_MAX];
};

struct session_traffic {
        uint64_t calls, sent, received, output; /* bytes except for calls */
};

/* The cells of the sandbox (outcome.c). */
struct session_history {
        uint64_t n_run;   /* cells that this sandbox has started */
        uint64_t used_us; /* end of the last cell, or start of the sandbox */
        struct session_last {
                char code[CELL_EXCERPT_MAX + 1];
                enum cell_status status;
                uint64_t started_us, ended_us, duration_us, cpu_us, memory_peak;
                struct session_traffic traffic;
        } last;
        struct session_traffic traffic; /* of all its cells */
};

/* The time between two calls (machine.c). */
struct session_rest {
        bool is_on;       /* SESSION_REST was sent */
        uint32_t stopped; /* processes that were stopped since the last call */
        struct event *timer;
        uint32_t wait_ms; /* until it fires; 0: the counter was not read yet */
        uint64_t read_us, cpu_us;
};

struct session {
        /* sessions.c */
        TAILQ_ENTRY(session) link;
        struct session *same_bucket;
        struct session *same_number_bucket;
        uint32_t
                number; /* with which the set of sessions finds it: serial or target, as they were at the change of its state */
        struct session_principal *principal;
        bool is_named;     /* by a call, and not by the server */
        bool frees_memory; /* it ends for a session of another principal */
        bool yields;       /* it ends, and its place belongs to another session */
        struct {
                uint64_t memory, cpu_us;
        } seen; /* overview.c: when its counters were read last */

        const struct session_context *context;
        const struct session_table *table;
        char name[SESSION_KEY_MAX + 1]; /* its key (session-name.h) */
        struct memory_account *account; /* what the broker keeps for it */

        /* machine.c */
        enum session_state state;
        struct event *timer;          /* its meaning follows from the state */
        struct event *remind;         /* in SESSION_INTERRUPTING */
        enum cell_status stop_status; /* of the cell that was interrupted; CELL_OK: none was */
        enum session_end end;         /* why the sandbox is killed */
        char why[CELL_WHY_MAX];       /* that reason as text */
        uint64_t due_us, left_us;     /* queue.c: when the timer fires; the rest of a held cell */

        char outdated[CELL_WHY_MAX]; /* session.c: why the next cell needs another sandbox, or "" */

        /* actions.c: from CREATING on */
        uint32_t serial; /* of the request, while CREATING or DISCARDING */
        uint32_t target; /* the monitor's number of the sandbox, from IDLE on */
        uint64_t born_us;
        bool restart;            /* create a sandbox although no cell waits */
        char lost[CELL_WHY_MAX]; /* why the last sandbox ended, for the result of the next call */
        struct config *config;   /* a reload does not change it */
        const struct config_profile *profile; /* in it; NULL: the config has no profiles */
        const struct config_profile
                *rights;               /* servers, tools, hosts, packages: of profile or reduced */
        struct config_profile reduced; /* the profile, less what the newest config took from it */
        char last_profile[IMAGE_NAME_SIZE]; /* of the last sandbox: the default of the next one */

        struct branch_file *branch_file; /* of which the sandbox has mappings, or NULL */

        struct session_rest rest;

        struct session_queue queue;
        bool single;        /* queue.c: the sandbox ends with its first cell */
        bool is_plans_copy; /* queue.c: a plan is made in it. It has no network */
        struct session_owners owners;
        struct session_tasks tasks;
        struct session_history history;
        uint64_t catalogue; /* version of the tools that the worker has; 0: none */

        struct channel channel;
        struct streams streams;
        struct meter meter;
        struct session_network network;
        struct receipts receipts;

        struct calls *calls;
        struct call_counts sent; /* calls that rules with "after" count; a rollback lowers none */
        struct session_labels labels; /* of the sandbox, or of the next one if there is none */
        struct inject_request *inherited_placeholders; /* injected.c: of a branch; or NULL */
        struct session_labels
                inherited; /* those that the next sandbox begins with: it is a branch */
        struct session_installs *installs;
        struct files *files;
        struct session_pictures *pictures;
        struct {
                size_t calls; /* about which a person is asked; 0: there is no question */
                uint64_t since_us;
        } asks; /* supervisor/trust/asking.c */
        struct asking *asking;
        struct session_hold *hold; /* hold.c; NULL: it was never held */
        bool stands_still;         /* hold.c: it is held, or about to be */
        struct copies *copies;
        struct transaction *transaction;
        struct block *block;
        uint64_t
                branched_until_us; /* branch-cells.c: a checkpoint is written until then: it is not frozen */
};

/* As its owner sees it. */
static inline const char *session_shown_state(const struct session *session)
{
        return session->stands_still ? "held" : session_state_name(session->state);
}

/* The worker reads frames and answers. */
static inline bool session_is_usable(const struct session *session)
{
        return session->state >= SESSION_IDLE && session->state <= SESSION_INTERRUPTING;
}

/* Its worker is Node, which has no copies and receives no descriptors. */
static inline bool session_is_javascript(const struct session *session)
{
        return session->profile && session->profile->language == LANGUAGE_JAVASCRIPT;
}

/* The sandbox has not run a cell. */
static inline bool session_is_fresh(const struct session *session)
{
        return session->history.n_run == 0;
}

/* The cell that runs, or NULL. */
static inline struct cell *session_current(const struct session *session)
{
        struct cell *first = session->queue.first;

        return first && first->number != 0 ? first : NULL;
}

static inline enum monitor_usage session_usage_kind(const struct session *session)
{
        return (enum monitor_usage)session->context->hello.usage;
}

/* For the log; cell may be NULL. */
static inline struct log_ids session_log_ids(const struct session *session, const struct cell *cell)
{
        return (struct log_ids){.session = session->name,
                                .client = cell && *cell->client_name ? cell->client_name : NULL,
                                .request = cell && *cell->request_id ? cell->request_id : NULL,
                                .cell = cell ? cell->number : 0,
                                .trace_id = cell && *cell->trace.id ? cell->trace.id : NULL};
}

#define SESSION_ENDED_BY_OWNER "its owner ended it with 'cloister sessions'"

/* Creates and frees the timers. */
int machine_init(struct session *session);
void machine_done(struct session *session);

/* Returns whether the state has an action for the event. */
bool session_dispatch(struct session *session, enum session_event event,
                      const struct session_details *details);
/* Dispatches an event that brings n descriptors: they are closed if the state has no action. */
void session_dispatch_fds(struct session *session, enum session_event event,
                          const struct session_details *details, size_t n);

/* Changes the state, sets its timer and tells the owner. */
void session_enter(struct session *session, enum session_state state);

/* Ends the rest of a session, and thaws a frozen one, because a frame is about to be sent to its worker. */
void session_thaw(struct session *session);
/* Its sandbox has ended: nothing is at rest. */
void session_forget_rest(struct session *session);

/* Interrupts the cell that runs; its status will be this. */
void session_interrupt(struct session *session, enum cell_status status);

/* EVENT_ENDED follows. */
void session_kill_sandbox(struct session *session, enum session_end end, const char *why);

/* Sends the catalogue of tools if the worker's version is older. */
void session_send_catalogue(struct session *session);
