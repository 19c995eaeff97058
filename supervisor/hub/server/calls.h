/* The calls of a server: sends them, queues them, or fails them at once. */
#pragma once

#include "supervisor/hub/server/state.h"

/* Takes over a new call. */
void hub_server_call(struct hub_server *s, struct hub_call *call);

/* The functions of a struct hub_server for its calls. */
extern const struct hub_calls_host hub_server_calls_host;

/* Calls add() for each argument that the tool of a struct hub_server wants as an HTTP header. */
void hub_server_mirror(void *data, yyjson_val *params,
                       void (*add)(void *to, const char *name, const char *value, size_t n),
                       void *to);
