/* The sessions of cloister-inject: begin, end, the connections that are handed over for them. */
#pragma once

#include "supervisor/inject/session.h"

/* Takes ownership of the socket, also when it fails. */
int inject_session_open(struct inject *inject, const struct inject_request *request, int socket,
                        struct error *err);
void inject_session_close(struct inject_session *session);
/* The answer of the broker to a request of a connection. An unknown serial is ignored: its connection has ended. */
void inject_answer(struct inject *inject, const struct inject_request *answer);
