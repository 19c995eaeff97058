/*
 * The broker: serves a client, owns sessions and hub, and parses all untrusted input.
 * cloister-monitor starts it in its own namespaces, with a socket to the monitor at MONITOR_FD:
 *
 *     cloister-broker {mcp | serve | run | tools} [OPTION]...
 *
 * supervisor/options/options.def has the options.
 */
#pragma once

#include <event2/event.h>

#include "base/error.h"
#include "policy/config/config.h"
#include "supervisor/broker/control-service.h"
#include "supervisor/broker/control.h"
#include "supervisor/broker/link.h"
#include "supervisor/broker/network.h"
#include "supervisor/broker/pictures.h"
#include "supervisor/broker/reload.h"
#include "supervisor/broker/tool-provider.h"
#include "supervisor/hub/hub.h"
#include "supervisor/options/options.h"
#include "supervisor/session/machine/tool-provider.h"
#include "supervisor/session/sessions.h"

struct broker;

/* The functions of `cloister mcp`, `serve`, `run` or `tools`. */
struct broker_mode {
        int (*start)(struct broker *broker, struct error *err);
        void (*stop)(struct broker *broker); /* after the loop; the sessions still exist */
        /* On SIGINT; NULL: the loop ends. */
        void (*interrupted)(struct broker *broker);
        void (*catalogue_changed)(struct broker *broker);
        /* On SIGTERM; NULL: the loop ends. */
        void (*terminated)(struct broker *broker);
        /* Has the file of tokens read and checked: reload_checked() follows; then uses or drops it. NULL: there are none. */
        void (*check_tokens)(struct broker *broker);
        void (*take_tokens)(struct broker *broker, bool use);
        /* `cloister drain`; deadline_ms: 0: none. NULL: it cannot. */
        int (*drain)(struct broker *broker, uint64_t deadline_ms, struct error *err);
        int (*undo_drain)(struct broker *broker, struct error *err);
        /* After hub and sessions have taken another config. */
        void (*config_changed)(struct broker *broker, const struct config *config);
        /* A server asks the owner's client for something; NULL: there is none (hub.h). */
        int (*ask)(struct broker *broker, struct client_ask *ask, struct error *err);
        /* A server says that a page is done; NULL: there is no client (hub.h). */
        void (*page_done)(struct broker *broker, const char *server, const char *principal,
                          const char *id, size_t n);
        void (*free)(struct broker *broker); /* after the sessions were freed */
};

struct broker {
        const struct broker_mode *mode;
        struct options options;
        struct config *config;
        struct monitor_hello hello;
        int state_dir;
        int statm_fd; /* serve: the broker's own /proc/self/statm, or -1 */
        struct event_base *base;
        struct link *link;
        struct hub *hub;
        struct sessions *sessions;
        struct network *network;
        struct pictures *pictures;
        struct broker_secrets *secrets;
        struct injects *injects;
        struct tool_parts tool_parts;
        struct egress_process egress[EGRESS_PROCESSES_MAX]; /* until the network has them */
        size_t n_egress;
        struct control *control;
        struct control_service service; /* of `cloister serve` */
        struct reload *reload;
        struct event *signals[3];
        struct event *trim;     /* pending: on_trim() runs within TRIM_S */
        struct event *log_wait; /* lines of the log wait */
        int status;             /* the exit status */
        bool no_sandbox;        /* the last request for one failed: this machine refuses a step */
        void *data;             /* of the mode */
};

/* Ends the loop with this exit status. */
void broker_end(struct broker *broker, int status);

/* Sends a request about the server as a whole. */
int broker_ask_monitor(struct broker *broker, enum monitor_verb verb, uint32_t number);

/* modes: by enum mode; NULL: not a mode of the broker. Returns the exit status. */
int broker_main(const struct broker_mode *const modes[MODE_MAX], int argc, char **argv);
