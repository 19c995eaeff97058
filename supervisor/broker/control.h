/*
 * Requests of the owner of a running server, over a socket that only the owner may open
 * (policy/control-path.h): JSON-RPC 2.0, one message a line.
 *
 *     sessions/list   {}                 -> {"sessions_max", "ready", "sessions": […]}
 *     sessions/end    {"name": str}      -> {}
 *     sessions/reset  {"name": str}      -> {}
 *     sessions/undo   {"name": str, "checkpoint": str or absent} -> {}
 *     sessions/exec   {"name", "code", "filename"?, "timeout_ms"?, "wait_ms"?, "stream"?: bool, "create"?: bool,
 *                     "script"?: text of SCRIPT (docs/rpc.md), for a session that is created}
 *                     -> {"status", "exit_status", "why"?, "result": CallToolResult}, or with stream in place of result
 *                        {"traceback"?, "value"?, "notices", "displays", "displays_total"}; or
 *                        {"status": "busy", "code", "duration_ms", "line", "result"}
 *     sessions/probe  {"name", "ask": object} -> {"answer": any}         (PROBE of docs/rpc.md)
 *     files/list      {"name", "path"} -> {"kind", "files": [{"path", "size"}], "total"}
 *     files/get       {"name", "path", "offset"} -> {"data": base64, "size", "eof", "version"}
 *     files/put       {"name", "path", "offset", "data": base64, "to"?: path, "discard"?: bool} -> {}
 *
 * The last five are answered later, and the client sends nothing else meanwhile but the notification "interrupt". With
 * stream, exec sends notifications "output" {"stream": "stdout" | "stderr", "data": base64} before its answer. A client that
 * leaves stops its cell. No more can be done with them than a client of MCP can do.
 *
 * ready: the number of spare sandboxes. sessions is the array of sessions_append_list(). An unknown
 * name gives the error CONTROL_NO_SESSION.
 */
#pragma once

#include <event2/event.h>

#include "base/error.h"
#include "supervisor/session/sessions.h"

struct network;
struct control;

enum {
        CONTROL_CLIENTS_MAX = 24,           /* more wait in the socket's backlog */
        CONTROL_TASKS_MAX = 16,             /* requests under way; another one is refused */
        CONTROL_LINE_MAX = 2 * 1024 * 1024, /* bytes of a request */
        CONTROL_IDLE_SECONDS = 10,          /* a client that is silent for so long is dropped */

        CONTROL_NO_SESSION = -32001,
        CONTROL_BUSY = -32002,
};

/* listener: a listening, non-blocking socket, ownership is taken. network: borrowed, or NULL. */
int control_new(struct control **ret, struct event_base *base, int listener,
                struct sessions *sessions, const struct network *network, struct error *err);
/* Call it after the sessions were freed. */
struct control *control_free(struct control *control);
