/*
 * A hub with real server processes, for its tests: instead of the monitor, fork and exec start them.
 * The servers are tests/integration/servers/faulty.py, whose options say what they do wrong.
 */
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "policy/config/config.h"
#include "supervisor/hub/hub.h"

enum { WORLD_SERVERS = 80, WORLD_RUNS = 600, WORLD_ARGS = 12 };

struct world {
        struct event_base *base;
        struct hub *hub;
        struct config config;
        struct config_server servers[WORLD_SERVERS];
        const struct config_profile *profile; /* for all requests; NULL: none */
        char *args[WORLD_SERVERS][WORLD_ARGS];
        const struct config *used; /* the hub's current one: config, unless a test reloads */
        struct {
                pid_t pid; /* 0: it has ended and the hub was notified */
                uint32_t index;
        } runs[WORLD_RUNS]; /* the instance is the index plus 1 */
        unsigned n_runs, n_stops, n_changed;
        struct event child;
        bool is_silent; /* the monitor does not answer */
        const struct hub_caller
                *caller; /* of all calls, whose done() is world_on_result(); or NULL */
        char dir[64];
        int dir_fd;
        int log_fd;
};

/* A copy of the outcome of a call. */
struct reply {
        bool done;
        enum hub_outcome outcome;
        char message[600];
        char *result; /* JSON; owned */
        char *rpc_data;
        int64_t rpc_code;
        uint64_t duration_us;
        bool sent;
        unsigned text_refs; /* of large arguments, once the call was made: one is the caller's */
        struct hub_call *call;
};

void world_init(struct world *w);
/* Adds a server with these options for faulty.py, ended by NULL; before world_open(). Returns its
 * index. */
uint32_t world_add(struct world *w, const char *name, ...) __attribute__((sentinel));
void world_open(struct world *w);
/* Reloads with another config; its servers are copies of entries of `servers`. */
void world_reload(struct world *w, const struct config *config);
/* Ends the hub and its processes. world_open() may follow and uses the same state directory. */
void world_shut(struct world *w);
void world_done(struct world *w);

/*
 * The clock of a world stands still (tests/unit/fake-clock.h): no timer of the hub fires unless the
 * test lets time pass. These run the loop until a condition holds; a test that takes a minute
 * of real time fails and prints the log.
 */
void world_until(struct world *w, const bool *done);
/* The server is in this state of the catalogue. */
void world_until_state(struct world *w, const char *server, const char *state);
/* The catalogue has this many tools of the server. */
void world_until_tools(struct world *w, const char *server, size_t n);
/* This many processes were started. */
void world_until_runs(struct world *w, unsigned n);
/* The log contains the text; the text is not removed. */
void world_until_log(struct world *w, const char *part);

/* Handles all events that are ready, without waiting. */
void world_turn(struct world *w);
/* Handles all ready events, advances the clock by this time, and handles all ready events again. */
void world_pass_ms(struct world *w, unsigned ms);
/* Calls the server once: when this returns, it has answered all earlier messages. */
void world_settle(struct world *w, const char *server);

void world_begin(struct world *w, struct reply *reply, const char *server, const char *tool,
                 const char *arguments, uint32_t timeout_ms);
struct reply *world_call(struct world *w, const char *server, const char *tool,
                         const char *arguments);
/* data: the reply. */
void world_on_result(void *data, const struct hub_result *result);
struct reply *reply_free(struct reply *reply);

/* A member of a server in the catalogue, "" when it is absent; valid until the next call. */
const char *world_member(struct world *w, const char *server, const char *member);
/* The number of the server's tools in the catalogue. */
size_t world_tools(struct world *w, const char *server);

/* Lines that were logged since the last call; valid until the next call. */
const char *world_log(struct world *w);
