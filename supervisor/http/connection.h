/*
 * One connection.
 *
 * Theory of operation. Requests are read one at a time: while one is answered, bytes behind it are
 * read up to a limit and stay where they are, and the end of the stream is noticed, which cancels a
 * modern request. A response is written whole, or as events. The end of a response or of a connection is
 * done from the loop (the event `step`), because messages come from inside other parts of the
 * broker, which still use what would be freed.
 *
 * One timer has the deadline of the state. While a response is written it ticks: a client that has
 * read almost nothing since the last tick is dropped.
 */
#pragma once

#include "base/error.h"
#include "supervisor/http/state.h"

/* Accepted descriptor; takes ownership. user: of a unix socket, or NULL. peer: NULL: not known. Returns NULL when out of memory. */
struct http_connection *http_connection_new(struct http_server *server, int fd,
                                            struct mcp_principal *user,
                                            const union http_peer *peer);
/* Takes an accepted descriptor of the address of --admin. */
void http_connection_new_admin(struct http_server *server, int fd);
void http_connection_free(struct http_connection *connection);

/* A callback of the loop: takes requests that wait for their turn. */
void http_take_turn(int fd, short what, void *server);
