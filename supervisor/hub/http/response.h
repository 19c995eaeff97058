/* Sends a request, and handles its response or refusal: the messages in it, and when it is sent again. */
#pragma once

#include "supervisor/hub/http/queue.h"

void http_request_send(struct http_request *r);

/* The messages in the response to a struct http_request. */
extern const struct incoming_host http_incoming_host;
