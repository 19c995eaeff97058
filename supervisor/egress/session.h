/* A session in the process that has the network: its listener, what it may reach, what it has used. */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "policy/network-rules.h"
#include "rpc/egress-messages.h"
#include "supervisor/egress/egress-internal.h"

/* Takes ownership of the descriptors. An error ends nothing: the session has no network. */
int egress_session_open(struct egress *egress, const int fds[EGRESS_FDS], struct error *err);

/* What a connection may read now: at most `most` bytes. 0: later, egress_connections_wake() follows; -EDQUOT: max_bytes
 * are used up. */
ssize_t egress_session_allow(struct egress_session *session, size_t most);
/* Whether nothing may be read now because of the rate. egress_connections_wake() follows then. */
bool egress_session_must_wait(struct egress_session *session);
/* So many were read. Those of heads may be more than were allowed: they are made up for later. */
void egress_session_used(struct egress_session *session, size_t n);

/* A connection has ended: another one may be accepted. */
void egress_session_left(struct egress_session *session);
