/* The answers of cloister-access: url, headers, tokens (supervisor/access/access.h). */
#pragma once

#include "supervisor/hub/http/queue.h"

/* For the pipes of cloister-access; data is a struct http. */
extern const struct connection_host http_access_host;

/* The request was refused for its token: it waits for another token. May close the transport. */
void http_ask_token(struct http_request *r, int status, const char *challenge);
