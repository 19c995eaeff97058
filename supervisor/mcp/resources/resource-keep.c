/* Results of calls become resources. */
#include "supervisor/mcp/resources/resource-keep.h"

#include <stdio.h>

#include "supervisor/mcp/state.h"
#include "supervisor/mcp/subscriptions.h"

static void tell(struct mcp_server *server, struct mcp_principal *principal,
                 const struct resource_uri *uri)
{
        principal->resources_serial++;
        subscriptions_lists_changed(server, principal);
        subscriptions_updated(server, principal, uri);
}

void resource_keep(struct mcp_server *server, struct mcp_principal *principal,
                   const struct resource_uri *uri, struct capture *capture)
{
        if (resource_store_keep(&principal->store, uri, capture) >= 0)
                tell(server, principal, uri);
}

void resource_keep_display(struct mcp_server *server, struct mcp_principal *principal,
                           const struct resource_uri *uri, struct cell_display *display)
{
        if (resource_store_keep_display(&principal->store, uri, display) >= 0)
                tell(server, principal, uri);
}

void resource_keep_names(struct mcp_server *server, struct mcp_principal *principal,
                         const char *session, const struct cell_outcome *outcome)
{
        bool changed = false;

        /* A new sandbox starts with an empty directory; a lost one leaves no files. */
        if (outcome->state != CELL_STATE_KEPT && outcome->state != CELL_STATE_RESTORED &&
            outcome->state != CELL_STATE_ROLLED_BACK)
                changed = resource_store_forget_files(&principal->store, session);
        for (size_t i = 0; i < outcome->n_files && outcome->state != CELL_STATE_LOST; i++) {
                struct resource_uri uri = {.kind = RESOURCE_FILE};

                snprintf(uri.session, sizeof(uri.session), "%s", session);
                snprintf(uri.path, sizeof(uri.path), "%s", outcome->files[i].path);
                if (resource_store_name_file(&principal->store, &uri, &outcome->files[i]) > 0)
                        changed = true;
                subscriptions_updated(server, principal, &uri);
        }
        if (changed) {
                principal->resources_serial++;
                subscriptions_lists_changed(server, principal);
        }
}
