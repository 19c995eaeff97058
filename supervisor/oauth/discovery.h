/*
 * From the URL of an MCP server to its authorization server: the server's challenge, its resource
 * metadata (RFC 9728), the metadata of the authorization server that it names (RFC 8414, OpenID
 * Connect Discovery). A server without resource metadata is taken as one of MCP 2025-03-26: it is its
 * own authorization server.
 */
#pragma once

#include "policy/config/config.h"
#include "supervisor/oauth/metadata.h"

/* The server that a command is about, as the config has it. */
struct oauth_target {
        const char *name, *url;
        const struct config_oauth *config;
        struct oauth_reach reach;
        char secret[OAUTH_SECRET_MAX + 1]; /* of the config, "": none */
        char key[OAUTH_KEY_MAX + 1];       /* of the config, "": none; oauth_key_read() */
};

struct oauth_discovery {
        struct oauth_server server;
        char resource[OAUTH_URL_MAX + 1];    /* for the parameter "resource" */
        char scope[CHALLENGE_SCOPE_MAX + 1]; /* to request; "": none is named */
        int assumed; /* HTTP status of the server, where nothing names the endpoints; else 0 */
};

int oauth_discover(const struct oauth_target *target, struct oauth_discovery *ret,
                   struct error *err);
