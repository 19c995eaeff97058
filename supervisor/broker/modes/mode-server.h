/*
 * The MCP server of the modes `mcp` and `serve`, over any transport of its clients' messages. A mode
 * that is a server has this as the first member of what broker->data points to.
 */
#pragma once

#include "supervisor/broker/broker.h"
#include "supervisor/mcp/server.h"

struct mode_server {
        struct mcp_server *mcp;
        char *attestation; /* what clients can read as cloister://attestation; NULL: there is none */
        size_t attestation_length;
};

int mode_server_start(struct broker *broker, struct error *err);
void mode_server_drop_calls(struct mode_server *server); /* before the peers are freed */
void mode_server_done(struct mode_server *server);

/* Of struct broker_mode. */
void mode_server_catalogue_changed(struct broker *broker);
void mode_server_page_done(struct broker *broker, const char *server, const char *id, size_t n);
void mode_server_config_changed(struct broker *broker, const struct config *config);
