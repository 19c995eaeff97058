/* Settings of the program that runs the MCP server. */
#pragma once

#include <stddef.h>

struct mcp_host {
        const char *profile; /* of the server's own principal; NULL: by the client's name */
        /* JSON for the resource cloister://attestation, borrowed; NULL: there is none. */
        const char *attestation;
        size_t attestation_length;
};
