/* Starts the broker in its own namespaces, with its log and its control socket. */
#pragma once

#include <event2/event.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "policy/control-path.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/process/children.h"
#include "supervisor/options/options.h"

struct broker_launch {
        const struct ids *ids;
        const char *program;    /* path of `cloister-broker` */
        int filter_fd;          /* FILTER_BROKER or FILTER_BROKER_HTTP (borrowed) */
        int egress_filter_fd;   /* FILTER_EGRESS (borrowed), or -1: no session has a network */
        bool probe;             /* it tries a sandbox before it is ready */
        int watchdog_ms;        /* -1: none */
        bool has_http;          /* it may reach servers by HTTP */
        int control_fd;         /* the control socket (borrowed), or -1 */
        int log_fd;             /* for its log (borrowed), or -1: standard error */
        const char *state_path; /* directory that the broker may write, or NULL */
        const char *node_name;  /* of a server, or NULL */
        const struct options *options; /* its mode, and what `cloister` passes to it */
};

/* Returns its pid, which is added to children. *link: our end of its SOCK_SEQPACKET pair. */
pid_t broker_launch(const struct broker_launch *how, struct children *children, int *link,
                    struct error *err);

/*
 * The broker's log, where it goes to a regular file: a pipe, from which the monitor appends to the file
 * (base/log.h). So the broker, which parses hostile input, can neither change what is written nor
 * fill the disk. Other logs (a terminal, a pipe) are bounded by who reads them; the broker has their
 * descriptor.
 */
struct log_relay;

/* *theirs: the broker's end, which the caller closes. If the log is not a regular file, *ret is NULL and
 * *theirs -1. lost(): n more lines could not be written. */
int log_relay_new(struct log_relay **ret, struct event_base *base,
                  void (*lost)(void *data, uint64_t n), void *data, int *theirs, struct error *err);
/* Appends what is left. NULL is allowed. Returns NULL. */
struct log_relay *log_relay_free(struct log_relay *relay);

/* The socket on which the broker listens for commands of `cloister sessions`
 * (policy/control-path.h). The monitor creates it, because the broker's filter denies that. */
struct control_socket {
        int fd;                       /* listening, -1: none */
        char path[CONTROL_PATH_SIZE]; /* "": none */
        bool is_of_service;           /* its directory belongs to a service manager, and stays */
};

/* Finds the first directory that only our user can access, and sets path. Call it before the
 * janitor starts, which removes the socket when the monitor was killed. */
int control_socket_choose(struct control_socket *socket, struct error *err);

/* Creates the socket there. Only the user that runs this process may connect, and root; with `group`, also the members of that
 * group, if the directory is that of a service. NULL: none. */
int control_socket_open(struct control_socket *socket, const char *group, struct error *err);

/* Closes the socket and removes it, and its directory if that is empty then and not a service manager's. */
void control_socket_close(struct control_socket *socket);
