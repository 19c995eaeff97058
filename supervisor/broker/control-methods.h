/*
 * The methods of the control socket:
 *
 *     sessions/list   {}                 -> {"sessions_max", "ready", "sessions": […]}
 *     sessions/end    {"name": str}      -> {}
 *     sessions/reset  {"name": str}      -> {}
 *     sessions/undo   {"name": str, "checkpoint": str or absent} -> {}
 *     sessions/exec   {"name", "code", "filename"?, "timeout_ms"?, "wait_ms"?, "stream"?: bool, "create"?: bool,
 *                     "input"?: bool, "terminal"?: bool, "script"?: text of SCRIPT (docs/rpc.md), for a session that is created}
 *                     -> {"status", "exit_status", "why"?, "result": CallToolResult}, or with stream instead of result
 *                        {"traceback"?, "value"?, "notices", "displays", "displays_total"}; or
 *                        {"status": "busy", "code", "duration_ms", "line", "result"}
 *     sessions/probe  {"name", "ask": object} -> {"answer": any}         (PROBE of docs/rpc.md)
 *     files/list      {"name", "path"} -> {"kind", "files": [{"path", "size"}], "total"}
 *     files/get       {"name", "path", "offset"} -> {"data": base64, "size", "eof", "version"}
 *     files/put       {"name", "path", "offset", "data": base64, "to"?: path, "discard"?: bool} -> {}
 *
 * With terminal, it sends "question" {"id"} when calls of the code wait for a person, and {"id": ""} when that is over.
 *
 * questions/…: control-approve.h.
 *
 * With stream, exec sends notifications "output" {"stream": "stdout" | "stderr", "data": base64} before its answer. With
 * input too, it sends "read" {} when the code reads, and the client sends "input" {"data": base64}: nothing is the end of the input.
 *
 * ready: the number of spare sandboxes. sessions is the array of sessions_append_list(). An unknown
 * name gives the error CONTROL_NO_SESSION.
 */
#pragma once

#include "supervisor/broker/control.h"

extern const struct control_method control_methods[];
