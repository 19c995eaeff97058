/*
 * Streams: where the messages go that answer one POST, or that belong to a session.
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
/* No client can come back for its events: drops them. */
void http_stream_forget(struct http_stream *stream);
/* The connection does not read it any more: drops its reference. A modern request is cancelled. Returns the session that
 * ends with its stream, for http_session_free(), or NULL. */
struct http_session *http_stream_detach(struct http_stream *stream);
/* A connection reads on behind this event. */
void http_stream_attach(struct http_stream *stream, struct http_connection *connection,
                        uint64_t after);
/* Begins the events, if the client takes any, although there is no message yet. */
void http_stream_begin(struct http_stream *stream);
/* Nothing can answer it any more: its request was cancelled. */
bool http_stream_is_over(const struct http_stream *stream);
void http_stream_end(struct http_stream *stream);
