/* Answers of our client to the requests of servers. */
#pragma once

#include "rpc/client-request.h"

/* Appends the client's result, as the server gets it. Returns 0; -EINVAL, -EMSGSIZE: it does not answer
 * the request; -ENOMEM. */
int client_answer_take(const struct client_request *request, yyjson_val *result, struct buffer *to,
                       struct error *err);
