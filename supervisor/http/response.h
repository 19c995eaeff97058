/* Writes responses. A response and a connection end from the loop (connection.h). */
#pragma once

#include "base/json.h"
#include "supervisor/http/state.h"

/* Writes bytes of a response. */
void http_write(struct http_connection *connection, const void *bytes, size_t n);

/* A whole response. type: of the body, or NULL for none. headers: whole lines, or NULL. */
void http_respond(struct http_connection *connection, int status, const char *headers,
                  const char *type, const char *body, size_t n);
/* Responds with a text of one line. */
void http_respond_text(struct http_connection *connection, int status, const char *text);
/* Responds with a JSON-RPC error; id may be NULL. */
void http_respond_error(struct http_connection *connection, int status, yyjson_val *id, int code,
                        const char *text);

/* A response that is a stream of events. */
void http_begin_events(struct http_connection *connection, const char *headers);
void http_send_events(struct http_connection *connection, const struct buffer *events);
void http_end_events(struct http_connection *connection);
bool http_is_congested(const struct http_connection *connection);
