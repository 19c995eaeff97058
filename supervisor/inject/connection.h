/* A connection of a session to a host: TLS on both sides, one request after another. */
#pragma once

#include "supervisor/inject/session.h"

/* Takes ownership of the descriptors: the tunnel to the client, and the server's socket. */
void inject_connection_open(struct inject_session *session, size_t host,
                            const int fds[INJECT_HANDED_FDS]);
/* The connection that waits for this answer, or NULL. */
struct inject_connection *inject_connection_find(struct inject_session *session, uint32_t serial);
/* why: a clause, if it is not allowed. is_recorded: the broker gets INJECT_ENDED. */
void inject_connection_decided(struct inject_connection *connection, bool is_allowed,
                               bool is_recorded, const char *why);
/* Ends all of a session. */
void inject_connections_end(struct inject_session *session);
