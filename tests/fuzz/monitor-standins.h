/*
 * Stand-ins for what the monitor starts: sandboxes, templates, the image reader and builder, the network
 * check, the processes of servers. They have the functions of those headers, so that the linker does not
 * take the real ones. Each does nothing until one of the functions here makes the oldest of its kind
 * answer or end; where there is none, the function does nothing.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* More at once are a failure. */
enum { STANDIN_SESSIONS_MAX = 3 };

/* code 0: success; else an errno value. */
void standin_end_read(int code);
void standin_end_build(int code);
void standin_end_check(int code);

/* A template has made the first session in its queue. */
void standin_make(const struct error *error);
/* A template ends; code is the answer to the sessions in its queue. */
void standin_end_template(int code);
void standin_end_session(void);

/* The result of a server's exec, or the end of its processes. */
void standin_signal_server(bool end, int code);
void standin_end_servers(void);

/* Nothing but servers may be left. */
void standin_check_none(void);
