/* What server.c, server-call.c and server-message.c share. */
#pragma once

#include "supervisor/hub/connection.h"
#include "supervisor/hub/handshake.h"
#include "supervisor/hub/listing.h"
#include "supervisor/hub/rate.h"
#include "supervisor/hub/server.h"

enum server_state {
        SERVER_STOPPED,
        SERVER_STARTING,  /* the monitor was asked */
        SERVER_HANDSHAKE, /* the process runs */
        SERVER_LISTING,   /* tools/list is sent for the first time */
        SERVER_READY,
        SERVER_ENDING, /* was READY; its output or the process has ended, the rest is awaited */
        SERVER_FAILED,
        SERVER_STATE_MAX,
};

struct hub_server {
        const struct hub_server_host *host;
        const struct config_server *config;
        uint32_t index;
        enum server_state state;
        struct error error; /* FAILED: why */

        uint32_t instance;
        bool has_instance; /* the monitor runs it */
        bool has_ended;
        int wait_status;
        unsigned failures;            /* starts in a row */
        uint64_t failed_at, retry_at; /* us */
        uint64_t start_by;            /* when it must be READY, however often it is started again */
        struct event *deadline;       /* of the state */

        struct connection *connection;
        struct handshake *handshake;
        struct listing *listing;
        struct hub_calls *calls;

        struct hub_tools *tools; /* NULL: not known */
        unsigned declared; /* what the process was told that it may ask for: bits of client_can */
        char *instructions;
        bool has_tools; /* this process may be asked for a list of tools */
        bool has_tasks; /* and may be told to run a tool as a task (2025-11-25) */
        bool cancels_tasks;
        bool has_resources, has_prompts, has_logging;
        int log_level; /* the most detailed that it was told to send, as an index of log_levels */

        bool is_refusal; /* the message that is handled has refused a request, which was not run */
        struct rate
                unnamed; /* messages that do not say for which call they are: each is looked up */
        struct server_ask *asks; /* what it asks while it works on no call */
        size_t n_asks;
        struct event *roots_due; /* to tell that roots have changed; NULL before the first time */
};

/* The name of a struct hub_server, for the tables of functions. */
const char *hub_server_name(void *data);

/* Ends it as FAILED; all its calls fail. */
void hub_server_failf(struct hub_server *s, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

/* Asks the monitor for it, from STOPPED or FAILED. */
void hub_server_start(struct hub_server *s);

/* server-call.c */
extern const struct hub_calls_host hub_server_calls_host;

/* server-cache.c: the tools, as they are known to the next process of ours. */
void hub_server_save(struct hub_server *s);
void hub_server_take_cached(struct hub_server *s);

/* server-ask.c: what a struct hub_server may ask for: bits of client_can. */
unsigned hub_server_client_can(void *data);
/* A request for our client. Returns false if it is none. */
bool hub_server_on_ask(struct hub_server *s, const struct jsonrpc_message *m);
void hub_server_drop_asks(struct hub_server *s);
/* The server does not want the answer to this request any more. */
void hub_server_unask(struct hub_server *s, yyjson_val *id);

/* Calls add() for each argument that is to be an HTTP header. */
void hub_server_mirror(void *data, yyjson_val *params,
                       void (*add)(void *to, const char *name, const char *value, size_t n),
                       void *to);

/* server-message.c: notes what the server declares; capabilities: an object, or NULL. */
void hub_server_take_capabilities(struct hub_server *s, yyjson_val *capabilities);
/* Handles a line of stdout. Returns whether it was expected. */
bool hub_server_on_line(struct hub_server *s, const char *line, size_t n);
/* The same for an error that refused a request. */
void hub_server_on_refused(void *data, const char *line, size_t n);
/* The same for a long one, which was parsed before. */
bool hub_server_on_large(void *data, struct large_line *line);
/* The beginning of a long line that was not complete in time. */
void hub_server_on_late(void *data, const char *line, size_t n);
/* There will be no answer to the request. why: a predicate. */
void hub_server_on_unanswered(void *data, int64_t id, const char *why);
/* The same for the beginning of a line that is too long. */
void hub_server_on_oversized(void *data, const char *line, size_t n);
