/*
 * /ui/events: the data of the live view, as server-sent events.
 *
 * The first event comes at once, the next ones every HTTP_VIEW_MS, each with the whole state of the server as JSON: a page that lost one needs
 * nothing but the next. A client that has not read the last event gets no further one until it has. Read only: a request has no
 * effect on the server.
 */
#pragma once

struct http_connection;
struct http_server;

void http_on_view(struct http_connection *connection);
/* The connection ends, or its response does. */
void http_view_detach(struct http_connection *connection);
/* Ends all streams: tokens have changed, and each client has to show its token again. */
void http_views_end(struct http_server *server);
