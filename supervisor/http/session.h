/* Sessions of legacy clients. */
#pragma once

#include "supervisor/http/state.h"

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
