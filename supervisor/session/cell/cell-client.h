/*
 * The client for which a cell runs, as its tool calls see it: it may be asked for something, and told how
 * far a call is. A cell of `cloister run` has none.
 */
#pragma once

#include "rpc/client-request.h"

struct cell;

struct cell_client {
        unsigned can;          /* what it can be asked for: bits of client_can */
        const char *log_level; /* of the messages of servers that it wants, or NULL */
};

/* How far a call is, as its server says. */
struct cell_progress {
        double value, total; /* total 0: not known */
        const char *message; /* or NULL; not cleaned */
        size_t length;
};

/* data: the cell's. */
struct cell_client_calls {
        void (*describe)(void *data, struct cell_client *ret);
        /* Passes a request on; returns 0, or negative errno and it is not taken. Does not answer it before
         * it returns. */
        int (*ask)(void *data, struct client_ask *ask, struct error *err);
        void (*progress)(void *data, const char *server, const struct cell_progress *progress);
        /* params of notifications/message, not checked. */
        void (*log)(void *data, const char *server, yyjson_val *params);
};
