/* The requests that the broker may send: a table. */
#pragma once

#include <event2/util.h>

/* Handles one request; data: struct monitor. */
void monitor_on_request(evutil_socket_t fd, short what, void *data);
