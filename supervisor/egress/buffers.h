/*
 * The kernel's buffers of the proxy's sockets.
 *
 * Each socket begins with small buffers of a fixed size. A new connection, and later a flow that has moved
 * BUFFERS_GROW_AFTER, gets most of what its session has left, so that one connection is fast over a long way, and many whose client does not read hold little: a session at
 * most EGRESS_CONNECTIONS_EACH * 4 * BUFFER_SMALL + BUFFERS_EACH, all of them EGRESS_CONNECTIONS_MAX * 4 * BUFFER_SMALL +
 * BUFFERS_ALL. A connection that moves nothing gives its room to another one.
 */
#pragma once

#include "supervisor/egress/session.h"

enum {
        BUFFER_SMALL = 16 * 1024, /* as the kernel counts, with its own part of each packet */
        BUFFERS_EACH = 4 * 1024 * 1024,
        BUFFERS_ALL = 64 * 1024 * 1024,
        BUFFERS_GROW_AFTER = 128 * 1024,
};

/* Before connect() or listen(): the size of a window's field is agreed in the handshake, so the receive buffer must not
 * be fixed before it. */
void buffers_start(int fd);
/* After the handshake. */
void buffers_fix(int fd);

/* Enlarges the buffers between two sockets, which have had `granted` before; is_in: from the server to the client.
 * Returns what it took of the session, 0 if too little is left. */
size_t buffers_grow(struct egress_session *session, int from, int to, bool is_in, size_t granted);
void buffers_return(struct egress_session *session, size_t granted);
/* Makes them small again. Returns false if there are bytes in them. */
bool buffers_shrink(int from, int to);

/* Drops bytes that the server has not taken: a closed socket would keep them without being counted. */
void buffers_close(int server);
