/*
 * One request to our client, from who asks (a server of the user's) to who can reach the client (the
 * MCP server), through layers that know neither.
 *
 * The asker owns the memory. Who takes an ask fills in `withdraw` and `taker`. It then ends either by
 * answered(), called once by the taker, or by withdraw(), called by the asker.
 */
#pragma once

#include "rpc/client-request.h"

struct client_ask {
        struct client_request request;
        const char *server; /* the name of the server that asks, borrowed; NULL: code does */

        /* result: what the client answered, not checked yet; NULL: why there is no answer. */
        void (*answered)(struct client_ask *ask, yyjson_val *result, const char *why);

        void (*withdraw)(struct client_ask *ask);
        void *taker;
};
