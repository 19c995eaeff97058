/*
 * Who a client is. Sessions, kept outputs, files and notifications about them belong to a principal,
 * not to a connection: no other principal can name them.
 *
 * Standard input and output have one principal without a name, which the server makes; the HTTP
 * server has one for each token or user. They live as long as the server.
 */
#pragma once

#include <stdint.h>

#include "supervisor/mcp/publish/published.h"
#include "supervisor/mcp/publish/request-state.h"
#include "supervisor/mcp/resources/resource-store.h"
#include "supervisor/mcp/tasks/task.h"
#include "supervisor/session/cell/session-name.h"

struct mcp_principal {
        char name[SESSION_NAME_MAX + 1]; /* "" or a valid session name */
        const char *profile;             /* borrowed: that of its clients; NULL: by their names */
        size_t calls_max, sessions_max;  /* pending at once; 0: no limit of its own */
        size_t n_calls;
        size_t n_kept;    /* results of calls that no request waits for */
        size_t n_clients; /* HTTP sessions */
        struct resource_store store;
        struct tasks tasks;
        uint64_t resources_serial; /* grows when the list of resources changes */
        struct published_choice published;
        struct request_states states;
};

void mcp_principal_done(struct mcp_principal *principal);
