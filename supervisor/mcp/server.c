/* The life of the MCP server. */
#include "supervisor/mcp/server.h"
#include "supervisor/mcp/call/late.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/mcp/call/call.h"
#include "supervisor/mcp/profile.h"
#include "supervisor/mcp/state.h"
#include "supervisor/mcp/subscriptions.h"
#include "supervisor/mcp/tasks/tasks.h"
#include "supervisor/mcp/tool.h"
#include "supervisor/session/sessions-owner.h"

void mcp_server_catalogue_changed(struct mcp_server *server)
{
        /* A client that has not asked for the list has no old one. */
        if (tool_lists_refresh(server))
                subscriptions_lists_changed(server, NULL);
        subscriptions_catalogue_changed(server);
}

void mcp_principal_done(struct mcp_principal *principal)
{
        resource_store_done(&principal->store);
        request_states_done(&principal->states);
        late_asks_done(&principal->late);
        tasks_done(&principal->tasks);
}

void mcp_server_forget(struct mcp_server *server, struct mcp_principal *principal)
{
        mcp_call_forget(server, principal);
        sessions_end_of(server->sessions, principal->key);
        if (server->tools.forget)
                server->tools.forget(server->tools.data, principal->key);
        mcp_principal_done(principal);
        principal->store = (struct resource_store){};
}

struct rights {
        const struct mcp_server *server;
        const struct mcp_principal *principal;
};

/* Whether the profile was that of a client by its name, and is now that of none. */
static bool has_left(const struct rights *rights, const char *profile)
{
        const struct mcp_peer *peer;
        bool left = false;

        LIST_FOREACH (peer, &rights->server->peers, link) {
                if (peer->principal != rights->principal)
                        continue;
                if (strcmp(mcp_profile(peer, ERA_LEGACY)->name, profile) == 0)
                        return false;
                left |= strcmp(peer->profile_left, profile) == 0;
        }
        return left;
}

/* A principal without a profile may use the config's default, and those of clients' names. */
static bool may_use(const void *data, const char *profile)
{
        const struct rights *rights = data;
        const struct config *config = rights->server->config;
        const char *own = rights->principal->profile;
        int i = config_find_profile(config, profile, NULL);

        if (i < 0 || config->profiles[i].agent || own)
                return i >= 0 && (config->profiles[i].agent || strcmp(own, profile) == 0);
        if (has_left(rights, profile))
                return false;
        for (size_t c = 0; c < config->n_clients; c++) {
                if (config->clients[c].profile == (size_t)i)
                        return true;
        }
        return config->profile == (size_t)i;
}

void mcp_server_restrict(struct mcp_server *server, struct mcp_principal *principal)
{
        const struct rights rights = {server, principal};

        if (server->config->n_profiles > 0)
                sessions_restrict(server->sessions, principal->key, may_use, &rights);
}

bool mcp_server_has_calls(const struct mcp_server *server)
{
        for (const struct mcp_call *call = server->calls; call; call = call->next) {
                if (!call->suspension.has_outcome)
                        return true;
        }
        return false;
}

bool mcp_server_has_results(const struct mcp_server *server, uint64_t since_us)
{
        for (const struct mcp_call *call = server->calls; call; call = call->next) {
                if (call->wait.is_kept ? call->wait.kept_us >= since_us
                                       : call->suspension.has_outcome)
                        return true;
        }
        return server->n_unread > 0 && server->unread_us >= since_us;
}

void mcp_server_set_config(struct mcp_server *server, const struct config *config)
{
        const struct config *before = server->config;
        struct mcp_peer *peer;

        LIST_FOREACH (peer, &server->peers, link) {
                const struct config_profile *was = mcp_profile(peer, ERA_LEGACY);
                snprintf(peer->profile_left, sizeof(peer->profile_left), "%s",
                         was ? was->name : "");
        }
        server->config = config;
        mcp_server_info_set(config->as.server_name);
        mcp_server_restrict(server, &server->owner);
        tool_lists_outdated(server);
        published_reload(server, before);
        LIST_FOREACH (peer, &server->peers, link)
                sessions_expect(server->sessions, mcp_profile(peer, ERA_LEGACY));
        mcp_server_catalogue_changed(server);
        subscriptions_lists_changed(server, NULL);
}

int mcp_server_new(struct mcp_server **ret, struct event_base *base, const struct config *config,
                   const struct tool_provider *tools, struct sessions *sessions,
                   const struct mcp_host *host, struct error *err)
{
        struct mcp_server *server = calloc(1, sizeof(*server));

        if (!server)
                return error_errno(err, ENOMEM, "MCP server");
        *server = (struct mcp_server){
                .base = base,
                .config = config,
                .tools = *tools,
                .sessions = sessions,
                .host = *host,
        };
        mcp_server_info_set(config->as.server_name);
        server->owner.profile = host->profile;
        LIST_INIT(&server->peers);
        *ret = server;
        return 0;
}

void mcp_server_drop_calls(struct mcp_server *server)
{
        while (server->calls) {
                server->calls->cell = NULL;
                mcp_call_free(server->calls);
        }
}

struct mcp_server *mcp_server_free(struct mcp_server *server)
{
        if (!server)
                return NULL;
        subscriptions_free(server);
        mcp_principal_done(&server->owner);
        tool_lists_free(server);
        free(server);
        return NULL;
}
