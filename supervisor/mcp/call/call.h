/*
 * Pending calls: of run_python (run.h) and of what the config publishes (publish/published-call.h).
 *
 * A call is the owner of its cell, and at most one request waits for it. A call that asks a modern client, or whose
 * time to wait is over, is answered, and continues without a request until another one is attached to it (input.h,
 * run.c).
 */
#pragma once

#include <event2/event.h>

#include "rpc/background.h"
#include "rpc/jsonrpc.h"
#include "supervisor/mcp/call/live.h"
#include "supervisor/mcp/state.h"
#include "supervisor/service/node.h"
#include "supervisor/service/phase.h"

struct mcp_answer;
struct branch_calls;
struct plan_run;
struct published_run;
struct run_tool;

enum {
        MCP_CALLS_MAX = 1024, /* pending at once */
        MCP_SAID_MAX = 2 * SESSION_NAME_MAX + NODE_WHY_MAX + 100,
};

/* The functions that differ between run_python and published code. */
struct mcp_call_kind {
        /* The cell has ended. Takes the outcome; the call is freed, or continues with another cell. */
        void (*ended)(struct mcp_call *call, uint64_t number, struct cell_outcome *outcome);
        /* The call is freed; NULL: it has nothing else. */
        void (*done)(struct mcp_call *call);
};

/* A call of a modern client that needs input is answered with its questions, and stays without a
 * request until the client calls again. */
struct mcp_suspension {
        bool active;
        bool has_outcome;                /* the cell has ended meanwhile */
        char state[NODE_MINTED_MAX + 1]; /* requestState; "" before the first time */
        uint64_t digest;                 /* of what was called */
        unsigned rounds;
        struct event *due;           /* to send the questions; while active, the end of the wait */
        uint64_t number;             /* of the cell, */
        struct cell_outcome outcome; /* and its outcome, if it has ended */
};

/* A call of run_python whose request was answered before the end of its cell (run.c). */
struct mcp_wait {
        bool is_limited, listens; /* what the request says: `wait`; it has no code */
        uint32_t ms;              /* if is_limited */
        bool unattended;          /* no request waits */
        bool is_kept;      /* the cell has ended too: the outcome is that of the suspension */
        uint64_t kept_us;  /* since when */
        struct event *due; /* the end of the wait, or of the time of a kept result; or NULL */
        struct capture_mark shown[CELL_STREAMS]; /* the output before it is in earlier answers */
        bool was_cut[CELL_STREAMS];
        bool is_unnamed;         /* the session has a name that the client did not choose */
        char said[MCP_SAID_MAX]; /* for the notice, or "" */
        char *person;            /* "waits for a person: cloister approve ID", or NULL */
        uint32_t person_ms;      /* after which the request is answered then; 0: not */
};

struct mcp_call {
        struct mcp_call *next;
        const struct mcp_call_kind *kind;
        struct mcp_server *server;
        struct mcp_peer *peer; /* NULL: it has ended, or the call is a task */
        struct mcp_principal *principal;
        struct reply reply;
        struct cell *cell;
        char session[SESSION_NAME_MAX + 1];
        size_t max_output;
        unsigned kinds; /* CONTENT_… that the client supports */
        bool cancelled; /* the client does not wait for an answer any more */
        bool *gone;     /* set when it is freed, or NULL */
        struct live live;
        struct background_job *answer; /* being made; the cell has ended */

        bool modern;
        unsigned can; /* what its client can be asked for */
        enum mcp_log_level log_level;
        struct mcp_asks asks;
        char client_name[CELL_CLIENT_MAX + 1]; /* that the client gives itself, or "" */
        struct trace_context trace;            /* of the request that has made the call */
        struct mcp_suspension suspension;
        struct mcp_wait wait;
        struct published_run *run;     /* of something published, or NULL */
        struct run_tool *tool;         /* of a tool that runs the code it is given, or NULL */
        struct branch_calls *branches; /* branches.c, or NULL */
        struct plan_run *plan;         /* plans.c, or NULL */
};

/* Takes ownership of the reply; NULL: out of memory. */
struct mcp_call *mcp_call_new(const struct mcp_request *request, const struct mcp_call_kind *kind,
                              const char *session, size_t max_output, struct reply *reply);
void mcp_call_free(struct mcp_call *call);
/* An unguessable name of a new session, which leads back to this node. */
void mcp_call_name_session(char session[SESSION_NAME_MAX + 1]);
/* Whether the principal may start a call in this session now, which runs `cells` cells. Returns 0, or -EBUSY with the
 * answer: nothing may have run before. */
int mcp_call_admit(const struct mcp_peer *peer, const char *session, unsigned cells,
                   struct service_refusal *ret);

/* A request waits for the call from now on. Takes ownership of the reply. */
void mcp_call_attach(struct mcp_call *call, const struct mcp_request *request, struct reply *reply);
/* The request was answered, and the cell continues. */
void mcp_call_unattend(struct mcp_call *call);

/* struct cell_request: its done() and watch(). */
void mcp_call_done(void *data, struct cell *cell);
/* struct cell_request: its waits(). */
bool mcp_call_waits(void *data, const struct person_way *way);
void mcp_call_output(void *data, enum cell_stream stream, const char *bytes, size_t n);
/* Keeps the outcome until a request waits for it; then concludes the call. */
void mcp_call_keep(struct mcp_call *call, uint64_t number, struct cell_outcome *outcome);
void mcp_call_conclude(struct mcp_call *call);
/* The time of a request begins, if it has one. */
void mcp_call_start_wait(struct mcp_call *call);
/* The result is being made: stops the notifications and the wait. */
void mcp_call_finish(struct mcp_call *call);
/* Ends a call that no request waits for, and its cell. */
void mcp_call_abandon(struct mcp_call *call);

/* A modern client answers what mcp_ask_put() has shown. Returns false if an answer has ended the call, which is freed
 * then. */
bool mcp_call_give(struct mcp_call *call, yyjson_val *responses);
/* A response of a legacy client. Returns whether it answers a request for a call of this peer. */
bool mcp_call_response(struct mcp_peer *peer, const struct jsonrpc_message *message);

/* Whether a call with this id is pending and not cancelled. cancels: notifications/cancelled. */
bool mcp_call_is_pending(const struct mcp_peer *peer, yyjson_val *id, bool cancels);
/* The peer ends: cancels its calls. */
void mcp_call_drop(struct mcp_peer *peer);
/* The principal ends: cancels its tasks and the calls that no request waits for, too, and frees kept results. */
void mcp_call_forget(struct mcp_server *server, const struct mcp_principal *principal);

/*
 * The answer of a call, made from the outcome of its cell: at once, or in the background (rpc/background.h) if it is
 * large. The call stays in its list until then; then it is answered and freed.
 */
struct mcp_answer_kind {
        int (*make)(struct mcp_answer *answer, struct buffer *to);
        void (*sent)(struct mcp_answer *answer); /* the call still exists; NULL: nothing */
        void (*done)(struct mcp_answer *answer); /* frees what it has besides; NULL: nothing */
};

/* The first member of what an answer is made of; allocated by malloc(). */
struct mcp_answer {
        struct background_job job;
        const struct mcp_answer_kind *kind;
        struct mcp_call *call;
        struct cell_outcome outcome;
        struct buffer result;
        int r; /* of what made the result */
};

/* Takes the outcome and the answer. */
void mcp_answer_start(struct mcp_answer *answer, const struct mcp_answer_kind *kind,
                      struct mcp_call *call, struct cell_outcome *outcome);
