/*
 * The kernel's buffers of the proxy's sockets.
 *
 * Each socket begins with small buffers of a fixed size. Room above it is shared by the flows that
 * move much, so that one connection is fast over a long way, and many whose client does not read
 * hold little: a session at most EGRESS_CONNECTIONS_EACH * 4 * BUFFER_SMALL + BUFFERS_EACH, all of
 * them EGRESS_CONNECTIONS_MAX * 4 * BUFFER_SMALL + BUFFERS_ALL. Principals share the latter
 * (base/share.h).
 *
 * A flow gets half of what its session may have when it begins, and most of the rest once it has
 * moved BUFFERS_GROW_AFTER. If too little is left then, others give. A flow that has not moved that
 * many bytes for a second gives all, or half if the kernel holds bytes in it; the one that is idle longest is
 * the first. If none is idle, the largest one gives half, if it has four times as much. They are
 * flows of the same session if that has all it may have, otherwise flows of principals that have as
 * much as its own or more.
 */
#pragma once

#include "supervisor/egress/session.h"

enum {
        BUFFER_SMALL = 16 * 1024, /* as the kernel counts, with its own part of each packet */
        BUFFERS_EACH = 4 * 1024 * 1024,
        BUFFERS_ALL = 64 * 1024 * 1024,
        BUFFERS_GROW_AFTER = 128 * 1024,
};

/* Before connect() or listen(): the size of a window's field is agreed in the handshake, so the
 * receive buffer must not be fixed before it. */
void buffers_start(int fd);
/* After the handshake. */
void buffers_fix(int fd);

/* Of a flow between two sockets, which are borrowed. Its owner sets the first members. */
struct room {
        struct egress_session *session;
        int from, to;
        bool is_in; /* from the server to the client */

        struct room *next; /* egress->rooms: those with a grant */
        size_t granted;
        size_t moved, counted; /* bytes from the start on, and those up to moved_ms */
        uint64_t moved_ms;     /* when BUFFERS_GROW_AFTER had moved last, or the start */
        uint64_t asked_ms;     /* of the last try to take its room */
};

void buffers_begin(struct room *room);
/* Bytes have moved in this flow or in the one in the other direction, which gives its room if
 * little moves there. */
void buffers_moved(struct room *room, struct room *other);
/* May be called for one that has not begun. */
void buffers_end(struct room *room);

/* Drops bytes that the server has not taken: a closed socket would keep them without being counted.
 */
void buffers_close(int server);
