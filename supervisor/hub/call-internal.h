/* What call.c and call-answer.c share. */
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
};

struct hub_call {
        TAILQ_ENTRY(hub_call) link; /* in the list of its state */
        enum call_state state;
        struct call_outbox *outbox;
        struct hub_calls *calls; /* while waiting or sent */
        char *tool;
        struct buffer params; /* until sent, or kept for another round */
        int64_t id;           /* once sent */
        unsigned rounds;      /* how often it was sent again, for its server's state */
        bool is_task;
        char *task; /* the params of requests about it, once it has an id */
        struct event deadline;
        uint32_t timeout_ms;
        bool limits_all; /* the timeout includes the start of the server */
        uint64_t since;

        void (*fn)(void *data, const struct hub_result *result);
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
void hub_call_go_on(struct hub_call *call, const char *method, const struct buffer *params);
const char *hub_call_server(const struct hub_call *call);
