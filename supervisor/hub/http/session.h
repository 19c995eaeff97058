/*
 * Sessions, the stream for what the server sends without a request, HTTP+SSE, and cloister-access. All
 * functions may close the transport.
 */
#pragma once

#include "supervisor/hub/http/queue.h"

/* Ends a request without an answer; a stream is tried again. */
void http_request_fail(struct http_request *r, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
/* The time to the next attempt, within its bounds. */
unsigned http_retry_ms(int64_t wanted);

/* Opens the stream of a new session before other messages are sent. */
void http_listen_first(struct http *h);
void http_listen_again(struct http_request *r);
void http_listen_refused(struct http_request *r, int status);

/* HTTP+SSE: the stream names the url of POSTs; initialize was refused, so HTTP+SSE is tried. */
void http_on_endpoint(struct http_request *r, const char *text, size_t n);
void http_fall_back(struct http_request *initialize, int status);

/* The server does not know the session. */
void http_reopen(struct http *h);
bool http_on_reopened(struct http_request *r, const char *text, size_t n);
void http_delete_session(struct http *h);

/* ---- the answers of cloister-access: url, headers, tokens (supervisor/access/access.h) ---- */

/* For its pipes; data is a struct http. */
extern const struct connection_host http_access_host;

/* The request was refused for its token: it waits for another token. May close the transport. */
void http_ask_token(struct http_request *r, int status, const char *challenge);
