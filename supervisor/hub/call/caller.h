/* Who calls a server: what the hub tells it, and asks it for. */
#pragma once

#include "rpc/client-ask.h"
#include "rpc/shared-text.h"
#include "supervisor/hub/call/outcome.h"

/* The client for which a call is made. */
struct hub_client {
        const void *id;        /* equal for calls whose requests may be confused with each other */
        unsigned can;          /* bits of client_can */
        const char *log_level; /* of the messages that it wants from servers, or NULL */
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
        /* Returns false if there is no client that could be asked. */
        bool (*client)(void *data, struct hub_client *ret);
        /* Passes a request on to that client. Returns 0, or negative errno and it is not taken. */
        int (*ask)(void *data, struct client_ask *ask, struct error *err);
        void (*progress)(void *data, const struct hub_progress *progress);
        /* params of notifications/message, not checked. */
        void (*log)(void *data, yyjson_val *params);
};

struct config_profile;

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
