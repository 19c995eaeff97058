/* A request of a session, checked, and as the server gets it. */
#pragma once

#include "rpc/http/request.h"
#include "supervisor/inject/session.h"

enum { FORWARD_MAX = 2 * 1024 * 1024 + 256 * 1024 };

/* Whether the head may be taken: its Host is the one that the tunnel is for. Returns 0, or -EACCES with a clause. */
int forward_check(const struct inject_host *host, const struct http_reader *reader,
                  struct error *err);
/*
 * Appends the request, which was read whole, with values instead of placeholders. Its body has a Content-Length, however it was sent; a
 * compressed answer is not asked for; what is between two peers is left out. Returns 0; -EACCES: a placeholder is where it must not be, and the error is a
 * clause; -EMSGSIZE, -ENOMEM.
 */
int forward_append(const struct inject_session *session, size_t host,
                   const struct http_reader *reader, struct buffer *to, struct error *err);
