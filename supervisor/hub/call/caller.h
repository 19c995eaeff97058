/* Who uses the hub: the callers of servers, and the owner. What the hub reports to them, and asks them for. */
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/queue.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "rpc/client-request.h"
#include "rpc/memory-account.h"
#include "rpc/trace-context.h"

/* The outcome of a call. */
enum hub_outcome {
        HUB_OK,          /* result: the CallToolResult, isError included */
        HUB_NOT_FOUND,   /* no such server or tool, or the profile does not allow it: not sent */
        HUB_UNAVAILABLE, /* the server cannot start, or has ended */
        HUB_TIMEOUT,
        HUB_PROTOCOL, /* a JSON-RPC error: rpc_code, rpc_data; or an invalid answer */
        HUB_INPUT,    /* it asks for what the client cannot give; rpc_data: {"method", "params"} */
        HUB_OUTCOME_MAX,
};

/* The name of the exception in the sandbox (docs/rpc.md): "ToolNotFound"… */
const char *hub_outcome_kind(enum hub_outcome outcome);

/* Why a value is not a CallToolResult; NULL if it is. A missing content counts as an empty one. */
const char *hub_result_fault(yyjson_val *result);

struct hub_result {
        enum hub_outcome outcome;
        yyjson_val *result; /* HUB_OK; valid during the callback */
        const char *text;   /* the result as the server wrote it, or NULL */
        size_t text_length;
        int *memfd; /* or NULL: a RETURN with the result (rpc/memfd-frame.h). Set to -1 to take it */
        size_t memfd_length;
        const char *message; /* of another outcome */
        int64_t rpc_code;
        yyjson_val *rpc_data; /* or NULL */
        uint64_t duration_us;
        bool sent; /* the request was sent to the server */
};

/* The client for which a call is made. */
struct hub_client {
        const void *id;        /* equal for calls whose requests may be confused with each other */
        unsigned can;          /* bits of client_can */
        const char *log_level; /* of the messages that it wants from servers, or NULL */
        uint64_t principal;    /* call.c: a number for it; 0: it has no name */
        const struct trace_context *trace; /* call.c: of the call, or NULL */
};

struct hub_progress {
        double value, total; /* total 0: not known */
        const char *message; /* or NULL; of the server, not cleaned */
        size_t length;
};

/* All functions except done() may be NULL. None may call the hub, except ask(), which may not answer
 * before it returns. */
struct hub_caller {
        /* Called exactly once unless the call is dropped first. */
        void (*done)(void *data, const struct hub_result *result);
        /* The principal of the call, not terminated: no message about it may reach another one. NULL, or n 0: the only one. */
        const char *(*principal)(void *data, size_t *n);
        /* Returns false if there is no client that could be asked. */
        bool (*client)(void *data, struct hub_client *ret);
        /* The trace that the call is part of, or NULL. */
        const struct trace_context *(*trace)(void *data);
        /* Passes a request on to that client. Returns 0, or negative errno and it is not taken. */
        int (*ask)(void *data, struct client_ask *ask, struct error *err);
        void (*progress)(void *data, const struct hub_progress *progress);
        /* params of notifications/message, not checked. */
        void (*log)(void *data, yyjson_val *params);
};

struct config_profile;
struct hub_call;

struct hub_request {
        const struct config_profile *profile;
        const char *server;
        const char *method; /* NULL: tools/call; else one that hub_method_find() knows */
        const char *tool;   /* tools/call: its name */
        /* Of tools/call the arguments, else the params: an object, serialised before hub_call()
         * returns. NULL: none. */
        yyjson_val *arguments;
        struct shared_text *text; /* of large arguments: referenced, not copied; or NULL */
        uint32_t timeout_ms;      /* 0: the server's own */
        const struct hub_caller *caller;
        void *data; /* for its functions */
};

/* Cancels the call: the server is sent notifications/cancelled, and done() is not called. */
void hub_call_drop(struct hub_call *call);
/* Its time stands still until the same number of calls with false. */
void hub_call_stand_still(struct hub_call *call, bool stands_still);
/* Whether the request was sent to the server. */
bool hub_call_is_sent(const struct hub_call *call);

/* The methods that code can call besides tools/call. */
struct hub_method {
        const char *name;
        bool needs_prompts; /* the capability that it needs; otherwise resources */
};

/* NULL: there is no such method. */
const struct hub_method *hub_method_find(const char *name);

/* The params of a tools/call: `bytes`, and if there is a text (large arguments, which are not copied),
 * that and `after`. */
struct call_params {
        struct buffer bytes;
        struct shared_text *text; /* a reference, or NULL */
        const char *after;        /* of a text: what closes it; at most 32 bytes */
};

static inline size_t call_params_length(const struct call_params *p)
{
        return p->bytes.length + (p->text ? p->text->n + strlen(p->after) : 0);
}

static inline void call_params_done(struct call_params *p)
{
        buffer_done(&p->bytes);
        p->text = shared_text_unref(p->text);
}

/* The functions of the owner of the hub. */
struct secret_mask;

struct hub_host {
        void *data;
        /* Asks the monitor for the server of this index; hub_upstream_started() or _failed()
         * follows. */
        void (*start)(void *data, uint32_t index);
        /* Asks the monitor to end an instance; hub_upstream_ended() follows. */
        void (*stop)(void *data, uint32_t instance);
        /* The catalogue has changed; several changes within 20 ms are reported once. */
        void (*changed)(void *data);
        /* A server asks the owner's client for something while it works on no call. As the function of
         * struct hub_caller; NULL: there is no such client. */
        int (*ask)(void *data, struct client_ask *ask, struct error *err);
        /* A page that a server requested to be opened is done (id: its elicitationId). principal: the only one that calls
         * it, or NULL. May be NULL. */
        void (*page_done)(void *data, const char *server, const char *principal, const char *id,
                          size_t n);
        /* Values that messages of servers must not contain (supervisor/secrets/mask.h); may be NULL. */
        const struct secret_mask *mask;
};

/*
 * ---- the requests of a server to a client that are not answered yet ----
 *
 * A question has a deadline. It ends when the client answers, or the owner withdraws it: then the client gets a
 * cancellation. The owner embeds struct questions.
 */

enum { QUESTION_MS = 5 * 60000 }; /* for a person to answer */

struct questions;

struct question {
        struct client_ask ask; /* first; the owner passes it on */
        TAILQ_ENTRY(question) link;
        struct questions *list;
        struct event deadline;
        yyjson_doc *id; /* of the server's request, or NULL */
        char *key;      /* its name in a result that asks for input, or NULL */
};

struct questions {
        struct event_base *base;
        TAILQ_HEAD(question_list, question) open;
        unsigned n;
        /* answer: as the client gave it; result: JSON, as the server gets it. Or both NULL, and why. Must call
         * question_end(), perhaps later. */
        void (*answered)(void *data, struct question *q, yyjson_val *answer, const char *result,
                         const char *why);
        void *data;
};

/* Takes the request, and in any case id and key. Returns NULL when out of memory; the request then stays
 * with the caller. */
struct question *questions_add(struct questions *list, struct client_request *request,
                               const char *server, yyjson_doc *id, char *key);
/* It could not be passed on: ends it and gives the request back. */
void question_refused(struct question *q, struct client_request *request);
void question_end(struct question *q);

/* Withdraws the question with this id, if it exists. Returns whether it did. */
bool questions_withdraw(struct questions *list, yyjson_val *id);
void questions_withdraw_all(struct questions *list);
