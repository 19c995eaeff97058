/* One call of a tool: waits for its server, then for the answer, then for its turn to be told.
 * Private to the hub. */
#pragma once

#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/buffer.h"
#include "rpc/jsonrpc.h"
#include "supervisor/hub/hub.h"

struct hub_server;
struct hub_call_list;

enum call_state { CALL_WAITING, CALL_SENT, CALL_FINISHED };

struct hub_call {
        TAILQ_ENTRY(hub_call) link; /* in the list that its state says */
        enum call_state state;
        struct hub *hub;
        struct hub_server *server; /* NULL: there is none of that name */
        char *tool;
        struct buffer params; /* until sent */
        int64_t id;           /* once sent */
        struct event deadline;
        uint32_t timeout_ms;
        uint64_t since;

        void (*fn)(void *data, const struct hub_result *result);
        void *data;

        struct hub_result result;
        struct jsonrpc_message answer; /* owns what the result points to */
        char *text;                    /* but its text */
        char message[sizeof(((struct error *)0)->text)];
};

/* Sends those that wait; the server is READY. */
void hub_call_send_waiting(struct hub_server *s);

/* All that were sent, or that wait, end so. */
void hub_call_fail_sent(struct hub_server *s, const char *message);
void hub_call_fail_waiting(struct hub_server *s, const char *message);

/* The call of this id that was sent; NULL when there is none. */
struct hub_call *hub_call_find(struct hub_server *s, yyjson_val *id);
/* The call that a line was meant to answer, though it cannot be read whole; NULL when it cannot be
 * told. */
struct hub_call *hub_call_guess(struct hub_server *s, const char *line, size_t n);

/* Takes the answer over (its document too). */
void hub_call_answer(struct hub_call *call, struct jsonrpc_message *answer);
/* The server answered with something that is not an answer. */
void hub_call_spoiled(struct hub_call *call, const char *why);

/* Tells the callback of one whose state is CALL_FINISHED, and frees it. */
void hub_call_tell(struct hub_call *call);
void hub_call_free(struct hub_call *call);
/* All of a list, untold. */
void hub_call_free_all(struct hub_call_list *list);
