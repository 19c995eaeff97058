/* The network of a session whose profile allows one (docs/network.md): its policy goes to the process that has the network,
 * and what it has moved comes back in the results of its cells. */
#pragma once

#include <stddef.h>

#include "rpc/egress-messages.h"
#include "supervisor/session/cell.h"

struct session;

struct session_network {
        int page;                 /* a memfd with struct egress_page; -1: there is no network */
        int leash;                /* its end ends all connections */
        enum cell_network change; /* the next result tells it; OVER: each does */
        struct egress_sums all;   /* that results have told */
        struct {
                uint32_t id;
                struct egress_sums sums;
        } told[EGRESS_HOSTS_MAX];
};

/* The session has a sandbox. A failure is logged: then nothing can be reached. */
void session_network_open(struct session *session);
void session_network_close(struct session *session);
/* The process that had it has ended. The next one, if there is one, goes on with the same page. */
void session_network_lost(struct session *session);

/* Adds what has moved since the last time. */
void session_network_take(struct session *session, struct cell_outcome *outcome);
