/* The network of a session whose profile allows one (docs/network.md): its policy goes to the process that has the network,
 * and what it has moved comes back in the results of its cells. */
#pragma once

#include "rpc/egress-messages.h"
#include "supervisor/session/cell/cell.h"
#include "supervisor/session/machine/sandbox-requests.h"

struct session_network {
        const struct sandbox_requests *requests;
        uint32_t target;
        const char *session, *profile; /* names */
        int page;                 /* a memfd with struct egress_page; -1: there is no network */
        int lifetime_fd;          /* its end ends all connections */
        enum cell_network change; /* the next result reports it; OVER: each does */
        struct egress_sums all;   /* that results have reported */
        struct {
                uint32_t id;
                struct egress_sums sums;
        } reported[EGRESS_HOSTS_MAX];
};

void session_network_init(struct session_network *network);
/* The session of this name has a sandbox. A failure is logged: then nothing can be reached. profile: may be NULL. */
void session_network_open(struct session_network *network, const struct sandbox_requests *requests,
                          const char *session, uint32_t target,
                          const struct config_profile *profile);
void session_network_close(struct session_network *network);
/* The process that had it has ended. The next one, if there is one, continues with the same page. */
void session_network_lost(struct session_network *network);

/* Adds what was sent and received since the last time. */
void session_network_take(struct session_network *network, struct cell_outcome *outcome);
