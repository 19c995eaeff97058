/*
 * What the server's owner may ask and command while it runs, over a socket that only he may open
 * (policy/control-path.h): JSON-RPC 2.0, one message a line.
 *
 *     sessions/list   {}                 -> {"sessions_max", "ready", "sessions": […]}
 *     sessions/end    {"name": str}      -> {}
 *     sessions/reset  {"name": str}      -> {}
 *
 * ready: how many sandboxes are nobody's yet. An element of sessions is what
 * sessions_append_list() writes. A name of no live session is CONTROL_NO_SESSION.
 */
#pragma once

#include <event2/event.h>

#include "base/error.h"
#include "supervisor/session/sessions.h"

struct control;

enum {
        CONTROL_CLIENTS_MAX = 8,       /* more wait in the socket's backlog */
        CONTROL_LINE_MAX = 16 * 1024,  /* bytes of a request */
        CONTROL_PATIENCE_SECONDS = 10, /* a client that does nothing for so long is dropped */

        CONTROL_NO_SESSION = -32001,
};

/* listener: a listening, non-blocking socket, owned from now on. */
int control_new(struct control **ret, struct event_base *base, int listener,
                struct sessions *sessions, struct error *err);
struct control *control_free(struct control *control);
