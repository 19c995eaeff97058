/*
 * A server that is reached by HTTP: Streamable HTTP of MCP 2025-03-26 to 2025-11-25 (with sessions) and
 * of 2026-07-28 (without), and HTTP+SSE of 2024-11-05. A transport (supervisor/hub/transport/transport.h).
 *
 * Theory of operation
 *
 * The process that the monitor starts for such a server is cloister-access (supervisor/access/access.h):
 * it says url, headers and token, and finds another token when the server refuses one.
 *
 * Each message is a POST. The answer to a request is in the response: a JSON document, or an event
 * stream that may carry requests and notifications of the server too. A stream that ends before the
 * answer is resumed with a GET, if its events had ids. After notifications/initialized, a GET opens the
 * stream for messages of the server that belong to no request; a server need not have one. Messages that it
 * sends before the stream is open are lost, so the other messages wait for the stream, for a time.
 *
 * A legacy server may give a session, which each further message names. When the server does not know it
 * any more (404), initialize is sent again, and only messages that were refused for that reason are sent
 * again: another one may have been run. The session is deleted at the end.
 *
 * If initialize is refused with 400, 404 or 405, the server may be one of HTTP+SSE: a GET opens the one
 * stream of all answers, which first names the url of POSTs.
 *
 * No request is sent twice, unless a response says that it was not run: 401, 403 (with a challenge), 404
 * for the session, a redirect.
 */
#pragma once

#include "supervisor/hub/transport/transport.h"

struct exchange_loop;

/* *loop is made when it is NULL. NULL: no memory. */
struct transport *http_new(struct event_base *base, struct exchange_loop **loop,
                           const struct connection_host *host, void *data);
/* fds: stdin, stdout and stderr of cloister-access, owned from now on. */
void http_open(struct transport *t, const int fds[3], bool is_sse);
