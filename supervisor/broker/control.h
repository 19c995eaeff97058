/*
 * Requests of the owner of a running server, over a socket that only the owner may open
 * (policy/control-path.h): JSON-RPC 2.0, one message a line.
 *
 *     sessions/list   {}                 -> {"sessions_max", "ready", "sessions": […]}
 *     sessions/end    {"name": str}      -> {}
 *     sessions/reset  {"name": str}      -> {}
 *
 * ready: the number of spare sandboxes. sessions is the array of sessions_append_list(). An unknown
 * name gives the error CONTROL_NO_SESSION.
 */
#pragma once

#include <event2/event.h>

#include "base/error.h"
#include "supervisor/session/sessions.h"

struct control;

enum {
        CONTROL_CLIENTS_MAX = 8,      /* more wait in the socket's backlog */
        CONTROL_LINE_MAX = 16 * 1024, /* bytes of a request */
        CONTROL_IDLE_SECONDS = 10,    /* a client that is silent for so long is dropped */

        CONTROL_NO_SESSION = -32001,
};

/* listener: a listening, non-blocking socket, ownership is taken. */
int control_new(struct control **ret, struct event_base *base, int listener,
                struct sessions *sessions, struct error *err);
struct control *control_free(struct control *control);
