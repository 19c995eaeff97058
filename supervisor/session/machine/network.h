/* The network of a session whose profile allows one (docs/network.md): its policy goes to the process that has the network,
 * and what it has moved comes back in the results of its cells. */
#pragma once

#include "supervisor/session/machine/machine.h"

void session_network_init(struct session_network *network);
/* The session has a sandbox. A failure is logged: then nothing can be reached. */
void session_network_open(struct session *session);
void session_network_close(struct session_network *network);
/* The process that had it has ended. The next one, if there is one, continues with the same page. */
void session_network_lost(struct session *session);
/* The hosts of session->rights count from now on: connections end. */
void session_network_reload(struct session *session);

/* Adds what was sent and received since the last time. */
void session_network_take(struct session *session, struct cell_outcome *outcome);
