/*
 * The address of --admin: the metrics and the live view, for those who operate the server. It is not the address of /mcp, so that no proxy
 * before that publishes them.
 *
 *     /metrics                    OpenMetrics, or Prometheus's text
 *     /ui, /ui/view.js, /ui/view.css   the page of the live view: no data, and the token is in the fragment, which no browser sends
 *     /ui/events                  its data (view.h)
 *
 * With a file of tokens, /metrics needs a token with role=metrics or role=view and /ui/events one with role=view. Without one, /metrics is for
 * every program that can connect, and the live view for those of a socket that only its owner can open. Host and Origin are checked as for /mcp.
 */
#pragma once

#include <stdbool.h>

#include "supervisor/http/access.h"

struct http_connection;

struct admin_route {
        const char *path;
        bool is_view;          /* of the live view: refused where that is not served */
        enum access_role role; /* the least that a token needs; NONE: no token is needed */
        void (*take)(struct http_connection *connection);
};

/* The route of this path, or NULL. */
const struct admin_route *http_admin_route(const char *path);

/* Checks a request whose head is complete. Returns whether it is taken; otherwise it has responded. */
bool http_admin_check(struct http_connection *connection);
