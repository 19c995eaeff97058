/* What the broker's modes share. */
#pragma once

#include <event2/event.h>

#include "base/error.h"
#include "policy/config.h"
#include "supervisor/broker/control.h"
#include "supervisor/broker/link.h"
#include "supervisor/broker/options.h"
#include "supervisor/broker/tool-provider.h"
#include "supervisor/hub/hub.h"
#include "supervisor/session/sessions.h"

struct broker;

/* What `cloister mcp`, `run` and `tools` do with a broker that is up. */
struct broker_mode {
        int (*start)(struct broker *broker, struct error *err);
        void (*stop)(struct broker *broker); /* the loop has ended; the sessions are still there */
        /* SIGINT; NULL: the loop ends. */
        void (*interrupted)(struct broker *broker);
        void (*catalogue_changed)(struct broker *broker);
        /* There is another config from now on; the hub and the sessions know. */
        void (*config_changed)(struct broker *broker, const struct config *config);
        void (*free)(struct broker *broker); /* the sessions are gone */
};
extern const struct broker_mode broker_mode_mcp, broker_mode_run, broker_mode_tools;

struct broker {
        const struct broker_mode *mode;
        struct broker_options options;
        struct config *config;
        struct monitor_hello hello;
        int state_dir;
        struct event_base *base;
        struct link *link;
        struct hub *hub;
        struct sessions *sessions;
        struct control *control;
        struct event *signals[3];
        int status; /* the exit status */
        void *data; /* the mode's */
};

/* Ends the loop with this exit status. */
void broker_end(struct broker *broker, int status);
