/* A connection of a session to the proxy: one request. */
#pragma once

#include "supervisor/egress/session.h"

/* Takes ownership of the descriptor. It ends by itself, with egress_session_left(). -ENOMEM: it has ended. */
int egress_connection_open(struct egress_session *session, int client);

/* Bytes may be read again: egress_session_allow() returned 0. */
void egress_connections_wake(struct egress_session *session);
/* Ends all of a session, without egress_session_left(). */
void egress_connections_end(struct egress_session *session);
