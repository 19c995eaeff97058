/*
 * The calls of one server, from the request to the callback. Internal to the hub.
 *
 * A call waits while its server starts, is sent, and ends with an outcome, which is delivered from
 * the event loop: no function here calls a callback of the hub's user, but for
 * call_outbox_deliver(). What a server has to do for its calls is a table of functions, so that
 * calls know neither servers nor the hub.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/error.h"
#include "rpc/jsonrpc.h"
#include "rpc/large-line.h"
#include "supervisor/hub/call-params.h"
#include "supervisor/hub/caller.h"

enum {
        CALLS_MAX = 65536,                 /* of one server, waiting or sent */
        CALL_WAITING_BYTES_MAX = 64 << 20, /* of the arguments that wait, but for a single call */
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
        CALL_ASK_MS = 5 * 60000, /* for a person to answer; the call's own time stands still */
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
        /* Sends a request and returns its id. client: for whom, or NULL. -EMSGSIZE: too much waits to be
         * read by the server; or another negative errno. */
        int64_t (*send)(void *data, const char *method, const struct hub_client *client,
                        const struct call_params *params);
        /* Cancels a request (id 0: none is open), or the task that it is about: its params, or NULL. */
        void (*cancel)(void *data, int64_t id, const char *task, const char *reason);
        /* Answers a request of the server: a result, or NULL and why there is none. */
        void (*respond)(void *data, yyjson_val *id, const char *result, const char *why);
};

/* Calls with an outcome, in order of delivery. The owner embeds it. */
struct call_outbox {
        TAILQ_HEAD(call_outbox_list, hub_call) calls;
        struct event *due; /* borrowed; made active for each call that comes in */
};

void call_outbox_init(struct call_outbox *outbox, struct event *due);
/* Frees the calls; their callbacks are not called. */
void call_outbox_done(struct call_outbox *outbox);
bool call_outbox_is_empty(const struct call_outbox *outbox);
/* Calls the callback of the first one, which may free the outbox. */
void call_outbox_deliver(struct call_outbox *outbox);

/* What a call is about. */
struct call_request {
        const char *method;       /* a constant */
        const char *tool;         /* of tools/call, else NULL */
        yyjson_val *arguments;    /* an object, or NULL */
        struct shared_text *text; /* of large arguments, which are not copied; or NULL */
        uint32_t timeout_ms;      /* for all of it; 0: server_timeout_ms for the answer */
        uint32_t server_timeout_ms;
        const struct hub_caller *caller; /* borrowed */
        void *data;
};

/* A call that is of no server yet: hub_call_fail(), hub_calls_send() or hub_calls_queue() must
 * follow. */
int hub_call_new(struct event_base *base, struct call_outbox *outbox,
                 const struct call_request *request, struct hub_call **ret, struct error *err);
/* Ends it without its having been sent, or because its server has failed. */
void hub_call_fail(struct hub_call *call, enum hub_outcome outcome, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

struct hub_calls *hub_calls_new(const struct hub_calls_host *host, void *data);
/* Frees the calls too; their callbacks are not called. */
struct hub_calls *hub_calls_free(struct hub_calls *calls);
size_t hub_calls_count(const struct hub_calls *calls);
bool hub_calls_any_waiting(const struct hub_calls *calls);

/* Sends a new call now, or fails it. */
void hub_calls_send(struct hub_calls *calls, struct hub_call *call);
/* Lets it wait until the server is ready. Returns false if it has failed instead, because too much
 * waits already. */
bool hub_calls_queue(struct hub_calls *calls, struct hub_call *call);
/* The server is ready: sends those that wait, in order. */
void hub_calls_send_waiting(struct hub_calls *calls);

/* All that were sent, or that wait, end as unavailable. */
void hub_calls_fail_sent(struct hub_calls *calls, const char *message);
void hub_calls_fail_waiting(struct hub_calls *calls, const char *message);

/* Cancels the call; its callback is not called. */
void hub_call_drop(struct hub_call *call);
/* Whether the request was sent to the server. */
bool hub_call_is_sent(const struct hub_call *call);

/* The call that was sent with this id, or NULL. */
struct hub_call *hub_calls_find(struct hub_calls *calls, yyjson_val *id);
/* The server says how far a call is; token: of its first request. Returns whether it is one. */
bool hub_calls_progress(struct hub_calls *calls, yyjson_val *params);
/*
 * The call on behalf of which the server sends a message that does not belong to an answer: the one whose
 * task it names, or else the one that has asked for least, if all calls are of one client. Returns NULL
 * and why there is none.
 */
struct hub_call *hub_calls_attribute(struct hub_calls *calls, yyjson_val *params, const char **why);
/* The server sends a log message. */
void hub_calls_log(struct hub_calls *calls, yyjson_val *params);
/* The server asks the call's client for something. Takes what the request owns, answers it, now or later. */
void hub_call_ask(struct hub_call *call, struct client_request *request, yyjson_val *id);
/* The server does not want the answer any more. */
void hub_calls_unask(struct hub_calls *calls, yyjson_val *id);
/* A late answer to a request that was given up: names the task that it has made, if any. Returns the params
 * of a request to cancel that, or NULL; the caller frees it. */
char *hub_calls_orphan(struct hub_calls *calls, int64_t id, yyjson_val *result);
/* The request was refused, and not run, because the list of tools is old. Returns whether the call waits for
 * the next list; it does so once. */
bool hub_call_await_list(struct hub_call *call);
/* The next list has come: those that wait are sent again. why: it has not, as a predicate; they fail. */
void hub_calls_listed(struct hub_calls *calls, const char *why);
struct hub_call *hub_calls_by_id(struct hub_calls *calls, int64_t id);
/* The call that a line answers which cannot be parsed, or NULL. */
struct hub_call *hub_calls_guess(struct hub_calls *calls, const char *line, size_t n);

/* Takes ownership of the answer (its document too). is_modern: it is one of MCP 2026-07-28. large: the
 * line that it came in, whose memfd is taken; or NULL. */
void hub_call_answer(struct hub_call *call, struct jsonrpc_message *answer, bool is_modern,
                     struct large_line *large);
/* There is no answer, because of what the server did. why: a predicate. */
void hub_call_answer_none(struct hub_call *call, const char *why);
/* The server answered with something that is not a valid answer. */
void hub_call_answer_invalid(struct hub_call *call, const char *why);
