/* Life of a peer. */
#include "supervisor/mcp/peer.h"

#include <errno.h>
#include <stdlib.h>

#include "supervisor/mcp/ask.h"
#include "supervisor/mcp/resource-read.h"
#include "supervisor/mcp/server-internal.h"

int mcp_peer_new(struct mcp_peer **ret, struct mcp_server *server, struct mcp_principal *principal,
                 struct mcp_sink *sink, struct error *err)
{
        struct mcp_peer *peer = calloc(1, sizeof(*peer));

        if (!peer)
                return error_errno(err, ENOMEM, "MCP client");
        *peer = (struct mcp_peer){
                .server = server,
                .principal = principal ? principal : &server->owner,
                .version = MCP_2025_11_25,
                .log_level = MCP_LOG_OFF,
                .capabilities = BUFFER_INIT(PEER_CAPABILITIES_MAX),
                .legacy = {.peer = peer, .reply = {.sink = mcp_sink_ref(sink)}},
        };
        TAILQ_INIT(&peer->asks);
        LIST_INSERT_HEAD(&server->peers, peer, link);
        *ret = peer;
        return 0;
}

struct mcp_peer *mcp_peer_free(struct mcp_peer *peer)
{
        if (!peer)
                return NULL;
        mcp_call_drop(peer);
        mcp_ask_drop(peer);
        resource_read_drop(peer);
        tasks_drop_peer(peer);
        subscriptions_drop(peer);
        LIST_REMOVE(peer, link);
        subscription_done(&peer->legacy);
        asked_done(&peer->asked);
        buffer_done(&peer->capabilities);
        free(peer);
        return NULL;
}
