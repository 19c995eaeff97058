/* What the files of a call share. */
#pragma once

#include <event2/event_struct.h>

#include "base/buffer.h"
#include "supervisor/hub/call.h"

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
        EVENT_FAILED,
        EVENT_TIMED_OUT,
        EVENT_ABANDONED, /* the server asks for what its client cannot give */
        EVENT_DROPPED,
        EVENT_DELIVERED,
        EVENT_MAX,
};

enum { BUCKETS = 256, ORPHANS = 64 };

TAILQ_HEAD(call_list, hub_call);

struct hub_calls {
        const struct hub_calls_host *host;
        void *data;
        struct call_list waiting;         /* in order */
        struct call_list sent[BUCKETS];   /* by id */
        size_t count;                     /* in all these lists */
        size_t waiting_bytes, kept_bytes; /* of the params of those */
        size_t n_tasks;                   /* of those sent */
        int64_t orphans
                [ORPHANS]; /* requests that may still make a task, although they were given up */
        size_t n_orphans;
};

static inline struct call_list *bucket(struct hub_calls *calls, int64_t id)
{
        return &calls->sent[(uint64_t)id % BUCKETS];
}

/* Something that the server of a call asks of the call's client. */
struct hub_ask {
        struct client_ask ask; /* first */
        TAILQ_ENTRY(hub_ask) link;
        struct hub_call *call;
        struct event deadline;
        yyjson_doc *id; /* of the server's request; or */
        char *key;      /* its name in a result that asks for input */
};

TAILQ_HEAD(ask_list, hub_ask);

/* What the answer is awaited for. */
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
        char *task; /* the params of requests about it, once it has an id */
        enum call_step step;
        struct event poll; /* the next tasks/get */
        uint32_t poll_ms;

        struct ask_list asks;
        unsigned n_asks, n_asked;   /* open; ever */
        struct buffer answers;      /* of the round: members of inputResponses */
        struct buffer server_state; /* JSON: the requestState of the round, or empty */
        struct buffer asked_keys;   /* of a task: the names that were asked for, each with a NUL */

        struct event deadline;
        uint32_t timeout_ms;
        uint64_t due_us, left_us; /* end of its time; what is left while it stands still */
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
/* A further request of a call that was sent: the call waits for its answer instead. */
void hub_call_go_on(struct hub_call *call, const char *method, const struct call_params *params);
const char *hub_call_server(const struct hub_call *call);
/* It waits for something else than an answer. */
void hub_call_wait(struct hub_call *call);
/* Its client; false: it has none. */
bool hub_call_client(const struct hub_call *call, struct hub_client *ret);
/* Its time stands still, and goes on. */
void hub_call_hold(struct hub_call *call);
void hub_call_release(struct hub_call *call);

/* call-answer.c */
/* Ends it with a result that is a part of the answer. */
void hub_call_take_result(struct hub_call *call, struct jsonrpc_message *answer,
                          yyjson_val *result);
/* Ends it with an error of the server. error: an object as in JSON-RPC. */
void hub_call_take_error(struct hub_call *call, struct jsonrpc_message *answer, yyjson_val *error);
/* Sends the call again, with what was answered and the server's state. */
void hub_call_again(struct hub_call *call);

/* call-task.c: return whether the call goes on, or has ended, by what the server says of a task. */
bool hub_call_begin_task(struct hub_call *call, struct jsonrpc_message *answer, bool is_modern);
void hub_call_task_answer(struct hub_call *call, struct jsonrpc_message *answer);
void hub_call_poll_init(struct hub_call *call, struct event_base *base);
/* All that a task asked for is answered. */
void hub_call_update_task(struct hub_call *call);

/* call-ask.c */
/* Asks the client for all of these input requests, but for those of `asked_keys`. */
void hub_call_ask_all(struct hub_call *call, yyjson_val *requests);
/* The server's error says which addresses must be opened first (-32042). Returns whether the call goes on
 * or has ended by that. */
bool hub_call_ask_urls(struct hub_call *call, struct jsonrpc_message *answer);
void hub_call_drop_asks(struct hub_call *call);
