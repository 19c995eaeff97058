/* The MCP server of the modes `mcp` and `serve`. */
#include "supervisor/broker/modes/mode-server.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "supervisor/mcp/call/ask.h"
#include "supervisor/mcp/state.h"

enum { ATTESTATION_MAX = 4 * 1024 * 1024 };

static int read_attestation(struct mode_server *server, int fd, struct error *err)
{
        if (fd < 0)
                return 0;
        int r = fd_read_whole(fd, ATTESTATION_MAX, &server->attestation,
                              &server->attestation_length, err);
        close(fd);
        return r < 0 ? error_context(err, "read the attestation") : 0;
}

int mode_server_start(struct broker *broker, struct error *err)
{
        const struct tool_provider tools = broker_tool_provider(broker->hub);
        struct mode_server *server = broker->data;
        int r = read_attestation(server, broker->options.attestation_fd, err);

        if (r < 0)
                return r;
        const struct mcp_host host = {
                .profile = broker->options.profile,
                .attestation = server->attestation,
                .attestation_length = server->attestation_length,
        };
        return mcp_server_new(&server->mcp, broker->base, broker->config, &tools, broker->sessions,
                              &host, err);
}

void mode_server_drop_calls(struct mode_server *server)
{
        if (server->mcp)
                mcp_server_drop_calls(server->mcp);
}

void mode_server_done(struct mode_server *server)
{
        mcp_server_free(server->mcp);
        free(server->attestation);
}

void mode_server_catalogue_changed(struct broker *broker)
{
        const struct mode_server *server = broker->data;

        mcp_server_catalogue_changed(server->mcp);
}

void mode_server_page_done(struct broker *broker, const char *server, const char *id, size_t n)
{
        struct mode_server *mode = broker->data;

        notified_page_done(mode->mcp, server, id, n);
}

void mode_server_config_changed(struct broker *broker, const struct config *config)
{
        const struct mode_server *server = broker->data;

        mcp_server_set_config(server->mcp, config);
}
