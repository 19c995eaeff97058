/* What the files of a call share. */
#pragma once

#include <event2/event.h>
#include <sys/queue.h>

#include "base/unguessable.h"
#include "supervisor/mcp/arguments.h"
#include "supervisor/mcp/ask.h"
#include "supervisor/mcp/live.h"
#include "supervisor/mcp/server-internal.h"

struct answer_job;
struct result_options;
struct published_run;

/* A request to the client that is not answered. */
struct mcp_ask {
        TAILQ_ENTRY(mcp_ask) link; /* of its call, or of its peer */
        struct mcp_ask_list *list;
        struct client_ask *ask;
        struct mcp_call *call; /* NULL: of the peer */
        struct mcp_sink
                *sink; /* a reference: where the request was sent; NULL: it is a modern client's */
        int64_t id;    /* of the request */
};

/* A call of a modern client that wants to know something is answered with that, and stays without a
 * request until the client calls again. */
struct mcp_suspension {
        bool active;
        bool has_outcome;                   /* the cell has ended meanwhile */
        char state[UNGUESSABLE_LENGTH + 1]; /* requestState; "" before the first time */
        uint64_t digest;                    /* of what was called */
        unsigned rounds;
        struct event *due; /* to answer with what is asked; or, while active, the end of the wait */
        uint64_t number;   /* of the cell, */
        struct cell_outcome outcome; /* and its outcome, if it has ended */
};

/* A call whose request was answered before the end of its cell (call-wait.c). */
struct mcp_wait {
        bool is_limited, listens; /* what the request says: `wait`; it has no code */
        uint32_t ms;              /* if is_limited */
        bool unattended;          /* no request waits */
        bool is_kept;             /* nor is there a cell: the outcome is that of the suspension */
        uint64_t kept_us;         /* since when */
        struct event *due;        /* the end of the wait, or of the time of a kept result */
        struct capture_mark shown[CELL_STREAMS]; /* what earlier answers have */
        bool was_cut[CELL_STREAMS];
        char said[80]; /* for the notice, or "" */
};

enum { MCP_KEPT_MAX = 256 }; /* results of a principal */

struct mcp_call {
        struct mcp_call *next;
        struct mcp_server *server;
        struct mcp_peer *peer; /* NULL: it has ended, or the call is a task */
        struct mcp_principal *principal;
        struct reply reply;
        struct cell *cell;
        char session[SESSION_NAME_MAX + 1];
        size_t max_output;
        unsigned kinds; /* CONTENT_… that the client knows */
        bool cancelled; /* the client wants no answer any more */
        bool *gone;     /* set when it is freed, or NULL */
        struct live live;
        struct answer_job *answer; /* being made; the cell is gone */

        bool modern;
        unsigned can; /* what its client can be asked for */
        enum mcp_log_level log_level;
        struct mcp_ask_list asks;
        size_t n_asks;
        struct mcp_suspension suspension;
        struct mcp_wait wait;
        struct published_run *run; /* of something published, or NULL */
};

/* call.c */
/* Takes ownership of the reply; NULL: out of memory. */
struct mcp_call *mcp_call_new(struct mcp_peer *peer, const char *session, size_t max_output,
                              struct reply *reply);
void mcp_call_free(struct mcp_call *call);
/* An unguessable name of a new session. */
void mcp_call_name_session(char session[SESSION_NAME_MAX + 1]);
/* Why the principal may start no call in this session now, or NULL. */
const char *mcp_call_quota(const struct mcp_peer *peer, const char *session);
/* CONTENT_… that the client of a request knows. */
unsigned mcp_call_content_kinds(const struct mcp_request *request);
/* struct cell_request: its done() and watch(). */
void mcp_call_done(void *data, struct cell *cell);
void mcp_call_output(void *data, enum cell_stream stream, const char *bytes, size_t n);
/* Answers with the outcome and frees the call, perhaps later. */
void mcp_call_conclude(struct mcp_call *call, uint64_t number, struct cell_outcome *outcome);
/* The cell has ended, and a request waits for that: answers it, or goes on with another cell. */
void mcp_call_ended(struct mcp_call *call, uint64_t number, struct cell_outcome *outcome);
/* Answers that the call was not made. */
void mcp_call_refuse(struct mcp_server *server, struct reply *reply, const char *type,
                     const char *message, const char *session);
/* Appends the text of a kept result. */
int mcp_call_append_kept(struct mcp_call *call, struct buffer *to);
/* The client, as calls of servers' tools see it; data: the call. */
extern const struct cell_client_calls mcp_call_client;
/* The call's reply may have a task (tasks.h). */
void mcp_call_take_task(struct mcp_call *call);
/* Ends a call that nobody waits for: its cell too. */
void mcp_call_abandon(struct mcp_call *call);

/* ask.c */
void mcp_ask_answer(struct mcp_ask *ask, yyjson_val *result);

/* call-wait.c */
/* The arguments of the request; its cell is in its session. */
void mcp_wait_begin(struct mcp_call *call, const struct run_arguments *arguments);
/* The time of a request begins; stops. */
void mcp_wait_start(struct mcp_call *call);
void mcp_wait_stop(struct mcp_call *call);
void mcp_wait_done(struct mcp_call *call);
/* Interrupts the cell that the call's session runs. */
void mcp_wait_interrupt(struct mcp_call *call);
/* A call without code. */
void mcp_wait_listen(struct mcp_server *server, const struct mcp_request *request,
                     const struct run_arguments *arguments, struct reply *reply);
/* The request is cancelled. Returns whether that ends nothing but the wait. */
bool mcp_wait_leave(struct mcp_call *call);
/* The cell of an unattended call has ended. */
void mcp_wait_keep(struct mcp_call *call, uint64_t number, struct cell_outcome *outcome);
/* The call is answered: appends the text of the kept result of its session, which is forgotten, if there is one. */
void mcp_wait_take_earlier(struct mcp_call *call, struct buffer *to);
/* What of the outcome earlier answers have. */
void mcp_wait_options(const struct mcp_call *call, struct result_options *options);

/* call-whole.c */
/* URIs of the outputs of which the result shows a part, into uris and options. cell 0: none. */
void mcp_call_name_whole(const char *session, uint64_t cell, const struct cell_outcome *outcome,
                         struct resource_uri uris[CELL_STREAMS], struct result_options *options);
/* After the result was made: keeps these outputs, and the displays that it does not have, whole. */
void mcp_call_keep_whole(const struct mcp_call *call, const struct result_options *options,
                         struct cell_outcome *outcome);

/* input.c */
/* Another request waits for the call from now on. Takes ownership of the reply. */
void mcp_input_attach(struct mcp_call *call, const struct mcp_request *request,
                      struct reply *reply);
/* A request waits for a call whose outcome is kept: answers it. */
void mcp_input_conclude(struct mcp_call *call);
uint64_t mcp_input_digest(const struct run_arguments *arguments);
uint64_t mcp_input_digest_published(const char *method, const struct buffer *name,
                                    const struct buffer *arguments);
/* The call has to ask a modern client. Returns 0, or negative errno. */
int mcp_input_ask(struct mcp_call *call, struct error *err);
/* A request whose requestState may be that of a call that waits: goes on with the call, or answers an error if it
 * was made with something else. digest: of the request. Returns false, and the reply is the caller's, if no call
 * of this principal has that state. */
bool mcp_input_resume(struct mcp_server *server, const struct mcp_request *request, uint64_t digest,
                      struct reply *reply);
/* Answers what was asked, by the names that it has in inputRequests. Unknown ones are ignored. Returns false if
 * an answer has ended the call, which is freed then. */
bool mcp_input_give(struct mcp_call *call, yyjson_val *responses);
/* Appends {"ask-1": {"method", "params"}…}. */
int mcp_input_append(const struct mcp_call *call, struct buffer *to);
/* The cell has ended while no request waits for it: keeps the outcome. */
void mcp_input_keep(struct mcp_call *call, uint64_t number, struct cell_outcome *outcome);
void mcp_input_done(struct mcp_call *call);
