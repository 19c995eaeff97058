/*
 * Streams: where the messages go that answer one POST, or that belong to a session of a legacy client.
 *
 * Theory of operation. The form of the response to a POST is decided at its first message: if that is the answer,
 * the response is JSON, else a stream of events. A modern request belongs to its connection: when
 * that ends, the request is cancelled. A legacy request continues; its events have ids and are kept
 * in the session, within limits, and a client that comes back with Last-Event-ID gets those that it
 * missed.
 */
#pragma once

#include "supervisor/http/state.h"

/* Returns a stream with one reference, for the connection if there is one, or NULL. */
struct http_stream *http_stream_new(struct http_connection *connection);
/* The connection does not read it any more: drops its reference. A modern request is cancelled. A session that ends with
 * its stream is freed. */
void http_stream_detach(struct http_stream *stream);
/* A connection reads on behind this event. */
void http_stream_attach(struct http_stream *stream, struct http_connection *connection,
                        uint64_t after);
/* Begins the events, if the client takes any, although there is no message yet. */
void http_stream_begin(struct http_stream *stream);
/* Nothing can answer it any more: its request was cancelled. */
bool http_stream_is_over(const struct http_stream *stream);
void http_stream_end(struct http_stream *stream);

/* ---- sessions of legacy clients ---- */

/* NULL: too many, or out of memory. */
struct http_session *http_session_new(struct http_server *server, struct mcp_principal *principal);
/* NULL: the principal has none with this id. */
struct http_session *http_session_find(struct http_server *server,
                                       const struct mcp_principal *principal, const char *id);
void http_session_free(struct http_session *session);
/* Keeps a stream of a POST for a client that comes back. */
void http_session_keep(struct http_session *session, struct http_stream *stream);
/* "STREAM-EVENT". Returns the stream, or NULL. */
struct http_stream *http_session_stream(struct http_session *session, const char *event,
                                        uint64_t *after);
/* Frees sessions that were unused for HTTP_SESSION_IDLE_S. */
void http_sessions_expire(struct http_server *server);
