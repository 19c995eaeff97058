/*
 * The messages of a server: answers, requests and notifications, and bytes that are not a message. data is a
 * struct hub_server.
 */
#pragma once

#include "rpc/lines.h"
#include "supervisor/hub/call/caller.h"
#include "supervisor/hub/server/state.h"

/* Notes what the server declares. capabilities: an object, or NULL. */
void hub_server_take_capabilities(struct hub_server *s, yyjson_val *capabilities);

/* Handles a line of stdout. Returns whether it was expected. */
bool hub_server_on_line(void *data, const char *line, size_t n);
/* Handles an error that refused a request. */
void hub_server_on_refused(void *data, const char *line, size_t n);
/* Handles a long line, which was parsed before. Returns whether it was expected. */
bool hub_server_on_large(void *data, struct large_line *line);
/* The beginning of a long line that was not complete in time. */
void hub_server_on_late(void *data, const char *line, size_t n);
/* The beginning of a line that is too long. */
void hub_server_on_oversized(void *data, const char *line, size_t n);
/* There will be no answer to the request. why: a predicate. */
void hub_server_on_unanswered(void *data, int64_t id, const char *why);

/* Text of the server without secrets, in `to` if it has some. */
const char *hub_server_masked(const struct hub_server *s, const char *text, struct buffer *to);

/* The requests that a struct hub_server may send: bits of client_can. */
unsigned hub_server_client_can(void *data);

/* For the questions of a struct hub_server. */
void hub_server_on_answered(void *data, struct question *q, yyjson_val *answer, const char *result,
                            const char *why);
