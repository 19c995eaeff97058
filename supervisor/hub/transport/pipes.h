/*
 * The pipes of one server process. Its stdout carries messages, one per line; its stderr goes to
 * the log; messages to it wait in a queue. Internal to the hub.
 *
 * Everything that a server can make grow is bounded: a message (LINES_MAX), the queue, a line of stderr, how much
 * of its output is read in a period of time.
 */
#pragma once

#include <event2/event.h>

#include "supervisor/hub/transport/transport.h"

enum {
        CONNECTION_QUEUE_MAX = 64 << 20, /* bytes to be written, except a single message */
        PIPES_TURN = 1 << 20,            /* bytes that are written in one turn of the loop */
        CONNECTION_STDERR_LINE_MAX = 1024,
        CONNECTION_LINE_MS = 30000, /* for a line above RESERVATION_MIN, from there to its end */
        CONNECTION_PAUSE_MS = 100,  /* a server that writes too much is read again after this */
};

struct transport *pipes_new(struct event_base *base, const struct connection_host *host,
                            void *data);
/* Takes ownership of stdin, stdout and stderr of a new process. */
void pipes_open(struct transport *t, const int fds[3]);
