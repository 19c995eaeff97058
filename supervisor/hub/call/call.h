/*
 * The calls of one server, from the request to the callback.
 *
 * A call waits while its server starts, is sent, and ends with an outcome. The outcome is delivered from
 * the event loop: only call_outbox_deliver() calls a callback of the hub's user. The functions of a server
 * that its calls need are a table, so that calls know neither servers nor the hub.
 *
 * Only the files of this folder write the members of struct hub_call and struct hub_calls.
 */
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/buffer.h"
#include "base/error.h"
#include "rpc/jsonrpc.h"
#include "rpc/lines.h"
#include "supervisor/hub/call/books.h"
#include "supervisor/hub/call/caller.h"

enum {
        CALLS_MAX = 65536,                 /* of one server, waiting or sent */
        CALL_WAITING_BYTES_MAX = 64 << 20, /* of the arguments that wait, except of a single call */
        CALL_KEPT_BYTES_MAX = 64 << 20,    /* of the arguments that a server may ask for again */
        CALL_ROUNDS_MAX = 16,              /* how often it may */
        CALL_TASK_ID_MAX = 1024,
        CALL_POLL_MS =
                500, /* of a task whose server does not say how often; the bounds of what it says: */
        CALL_POLL_MIN_MS = 50,
        CALL_POLL_MAX_MS = 30000,
        CALL_ASKS_MAX = 16,      /* what one call may ask of the client, in all */
        CALL_ASKS_OPEN = 4,      /* and at once; a modern server may ask for all together */
        CALL_ASK_KEY_MAX = 256,  /* bytes of the name that a modern server gives to what it asks */
        CALL_TIMEOUT_MS = 60000, /* where neither the caller nor the config says */
};

struct hub_call;
struct hub_calls; /* the calls of one server that wait or were sent */

struct hub_calls_host {
        /* For messages. */
        const char *(*name)(void *data);
        bool (*has_tool)(void *data, const char *tool);
        /* Whether it declares what a method other than tools/call needs. */
        bool (*has_method)(void *data, const char *method);
        /* Whether the server must run the tool as a task; whether it speaks MCP 2026-07-28. */
        bool (*needs_task)(void *data, const char *tool);
        bool (*is_modern)(void *data);
        /* Sends a request and returns its id. client: of the call. -EMSGSIZE: too much waits to be
         * read by the server; or another negative errno. */
        int64_t (*send)(void *data, const char *method, const struct hub_client *client,
                        const struct call_params *params);
        /* Cancels a request (id 0: none is open), or the task that it is about: its params, or NULL. Returns the id of
         * the request that cancels the task; 0: there is none; -1: nothing more about the call can arrive. */
        int64_t (*cancel)(void *data, int64_t id, const char *task, const char *reason);
        /* Answers a request of the server: a result, or NULL and why there is none. */
        void (*respond)(void *data, yyjson_val *id, const char *result, const char *why);
        /* A message was refused because of a call on the books, or no call waits any more and one was. */
        void (*refused)(void *data);
};

/* Calls with an outcome, in order of delivery. The owner embeds it. */
struct call_outbox {
        TAILQ_HEAD(call_outbox_list, hub_call) calls;
        struct event *due; /* borrowed; made active for each call that comes in */
};

/* Frees the calls; their callbacks are not called. */
void call_outbox_done(struct call_outbox *outbox);
/* Calls the callback of the first one, which may free the outbox. */
void call_outbox_deliver(struct call_outbox *outbox);

/* A call that is of no server yet. server_timeout_ms: for the answer, if the request has no timeout; 0: the
 * default. hub_call_finish(), hub_calls_send() or hub_calls_queue() must
 * follow. */
int hub_call_new(struct event_base *base, struct call_outbox *outbox,
                 const struct hub_request *request, uint32_t server_timeout_ms,
                 struct hub_call **ret, struct error *err);

void hub_calls_init(struct hub_calls *calls, const struct hub_calls_host *host, void *data);
/* Frees the calls; their callbacks are not called. */
void hub_calls_done(struct hub_calls *calls);

/* Sends a new call now, or fails it. */
void hub_calls_send(struct hub_calls *calls, struct hub_call *call);
/* Lets it wait until the server is ready. Returns false if it has failed instead, because too much
 * waits already. */
bool hub_calls_queue(struct hub_calls *calls, struct hub_call *call);
/* The server is ready: sends those that wait, in order. */
void hub_calls_send_waiting(struct hub_calls *calls);

/* The principal of a call, of n 0 if it has no name; borrowed. */
struct book_principal hub_caller_principal(const struct hub_caller *caller, void *data);

/* All that were sent, or these and those that wait, end as unavailable. */
void hub_calls_fail(struct hub_calls *calls, bool waiting_too, const char *message);

/* The server will not answer, because of an event on its side. why: a predicate. */
void hub_call_answer_none(struct hub_call *call, const char *why);
/* The server sent an answer that is not valid. */
void hub_call_answer_invalid(struct hub_call *call, const char *why);

/* ---- for the files of this folder ---- */

enum call_state {
        CALL_NEW,
        CALL_WAITING,
        CALL_SENT,
        CALL_FINISHED,
        CALL_DELIVERED, /* its callback runs */
        CALL_FREED,
        CALL_STATE_MAX,
};

enum call_event {
        EVENT_QUEUED,
        EVENT_SENT,
        EVENT_ANSWERED,
        EVENT_UNANSWERED, /* no answer can arrive, but the server may work on it */
        EVENT_FAILED,
        EVENT_TIMED_OUT,
        EVENT_ABANDONED, /* the server asks for what its client cannot give */
        EVENT_DROPPED,
        EVENT_DELIVERED,
        EVENT_MAX,
};

enum { BUCKETS = 256 };

TAILQ_HEAD(call_list, hub_call);

struct hub_calls {
        const struct hub_calls_host *host;
        void *data;
        struct call_list waiting;         /* in order */
        struct call_list sent[BUCKETS];   /* by id */
        size_t count;                     /* in all these lists */
        size_t waiting_bytes, kept_bytes; /* of the params of those */
        size_t n_tasks;                   /* of those sent */
        uint64_t used_us;                 /* when the last one left these lists */
        struct books books;
};

static inline struct call_list *bucket(struct hub_calls *calls, int64_t id)
{
        return &calls->sent[(uint64_t)id % BUCKETS];
}

/* The request whose answer is awaited. */
enum call_step {
        STEP_CALL,   /* the request itself */
        STEP_GET,    /* tasks/get */
        STEP_RESULT, /* tasks/result, of a legacy server */
        STEP_UPDATE, /* tasks/update, of a modern one */
};

struct hub_call {
        TAILQ_ENTRY(hub_call) link; /* in the list of its state */
        enum call_state state;
        struct call_outbox *outbox;
        struct hub_calls *calls; /* while waiting or sent */
        const char *method;
        char *tool;                /* of tools/call; else NULL */
        struct call_params params; /* until sent, or kept for another round */
        int64_t id;       /* once sent; 0: no request is open, it waits for something else */
        int64_t token;    /* of its progress: the id of its first request */
        unsigned rounds;  /* how often it was sent again, for its server's state */
        bool awaits_list; /* of tools, to be sent again then */
        bool has_awaited; /* it did, once */

        bool is_task;
        bool task_ended;
        char *task; /* the params of requests about it, once it has an id */
        enum call_step step;
        struct event poll; /* the next tasks/get */
        uint32_t poll_ms;

        struct questions questions;              /* of the server to the call's client */
        unsigned n_asked;                        /* how many there were */
        void (*answered)(struct hub_call *call); /* called when none is open any more */
        struct buffer answers;                   /* of the round: members of inputResponses */
        struct buffer server_state;              /* JSON: the requestState of the round, or empty */
        struct buffer
                asked_keys; /* of a task: the names of its input requests so far, each with a NUL */

        struct event deadline;
        uint32_t timeout_ms;
        uint64_t due_us, left_us; /* end of its time; what is left while it stands still */
        unsigned n_holds;         /* it stands still until as many releases */
        bool has_left;            /* and has a deadline then */
        bool limits_all;          /* the timeout includes the start of the server */
        uint64_t since;

        const struct hub_caller *caller;
        void *data;

        struct hub_result result;
        struct jsonrpc_message answer; /* owns what the result points to, */
        char *text;                    /* except its text */
        int memfd;                     /* and its memfd; -1: none */
        char message[sizeof(((struct error *)0)->text)];
};

/* An outcome other than HUB_OK, by an event. */
void hub_call_finish(struct hub_call *call, enum call_event event, enum hub_outcome outcome,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));
void hub_call_step(struct hub_call *call, enum call_event event);
/* Sends a further request of a call that was sent: the call waits for its answer instead. */
void hub_call_go_on(struct hub_call *call, const char *method, const struct call_params *params);
/* The name of its server. */
const char *hub_call_server(const struct hub_call *call);
/* The call has no open request, and waits for an answer of its client or a time. */
void hub_call_wait(struct hub_call *call);
/* Its client. Returns false if it has none. */
bool hub_call_client(const struct hub_call *call, struct hub_client *ret);
/* Stops the time of a call that waits for its client, and continues it. */
void hub_call_hold(struct hub_call *call);
void hub_call_release(struct hub_call *call);

/* The call that was sent with this id, or NULL. */
struct hub_call *hub_calls_find(struct hub_calls *calls, yyjson_val *id);
struct hub_call *hub_calls_by_id(struct hub_calls *calls, int64_t id);
/* The call that a line answers which cannot be parsed, or NULL. */
struct hub_call *hub_calls_guess(struct hub_calls *calls, const char *line, size_t n);

/*
 * The call on behalf of which the server sends a message that does not belong to an answer: the one whose
 * task it names, otherwise the one that has asked for least, if all calls are of one client and no other principal has a
 * call on the books. Returns NULL and why there is none.
 */
struct hub_call *hub_calls_attribute(struct hub_calls *calls, yyjson_val *params, const char **why);

/* The server reports the progress of a call. Returns whether it is one of these calls. */
bool hub_calls_progress(struct hub_calls *calls, yyjson_val *params);
/* The server sends a log message. */
void hub_calls_log(struct hub_calls *calls, yyjson_val *params);
/* A late answer to a request that was cancelled. If it creates a task, cancels the task. */
void hub_calls_orphan(struct hub_calls *calls, int64_t id, yyjson_val *result);
/* Appends the params of requests about a task, {"taskId": …} and a NUL. Returns 0, -EINVAL if it is not a
 * valid id, -ENOMEM. */
int hub_call_append_task(struct buffer *params, yyjson_val *id);
