/* Lists of tools. */
#include "supervisor/mcp/tool-list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "supervisor/mcp/profile.h"
#include "supervisor/mcp/state.h"
#include "supervisor/mcp/tool.h"

enum { LIST_MAX = 1024 * 1024 };

struct tool_list {
        struct tool_list *next;
        char *profile; /* its name; "": the config has none */
        struct buffer text;
        uint64_t serial;
        uint64_t made_of; /* the version of the catalogue; 0: it must be made again */
};

static const char *name_of(const struct config_profile *profile)
{
        return profile ? profile->name : "";
}

static struct tool_list *find(const struct mcp_server *server, const char *profile)
{
        struct tool_list *list = server->lists;

        while (list && strcmp(list->profile, profile) != 0)
                list = list->next;
        return list;
}

static void list_free(struct tool_list *list)
{
        buffer_done(&list->text);
        free(list->profile);
        free(list);
}

static struct tool_list *find_or_make(struct mcp_server *server, const char *profile)
{
        struct tool_list *list = find(server, profile);

        if (list)
                return list;
        list = calloc(1, sizeof(*list));
        if (!list)
                return NULL;
        buffer_init(&list->text, LIST_MAX);
        list->profile = strdup(profile);
        if (!list->profile) {
                list_free(list);
                return NULL;
        }
        list->next = server->lists;
        server->lists = list;
        return list;
}

static const struct buffer *catalogue_of(const struct mcp_server *server,
                                         const struct config_profile *profile, uint64_t *version)
{
        *version = 0;
        return server->tools.catalogue(server->tools.data, profile, version);
}

static int refresh(struct mcp_server *server, const struct config_profile *profile,
                   struct tool_list *list, struct error *err)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(LIST_MAX);
        uint64_t version;
        const struct buffer *catalogue = catalogue_of(server, profile, &version);

        if (version > 0 && list->made_of == version)
                return 0;
        int r = tool_append(server->config, profile, catalogue, &text, err);
        if (r < 0)
                return r;
        list->made_of = version;
        if (text.length == list->text.length &&
            memcmp(buffer_bytes(&text), buffer_bytes(&list->text), text.length) == 0)
                return 0;
        buffer_done(&list->text);
        list->text = text;
        text = (struct buffer)BUFFER_INIT(LIST_MAX);
        list->serial++;
        return 0;
}

const struct buffer *tool_list_catalogue(const struct mcp_peer *peer, enum mcp_era era,
                                         uint64_t *version)
{
        uint64_t ignored;

        return catalogue_of(peer->server, mcp_profile(peer, era), version ? version : &ignored);
}

bool tool_list_has_servers(const struct mcp_peer *peer, enum mcp_era era)
{
        static const char none[] = "{\"servers\":[]}";
        const struct buffer *catalogue = tool_list_catalogue(peer, era, NULL);

        return catalogue && catalogue->length > sizeof(none) - 1;
}

const struct buffer *tool_list_get(struct mcp_peer *peer, enum mcp_era era, struct error *err)
{
        const struct config_profile *profile = mcp_profile(peer, era);
        struct tool_list *list = find_or_make(peer->server, name_of(profile));

        if (!list) {
                error_errno(err, ENOMEM, "list of tools");
                return NULL;
        }
        return refresh(peer->server, profile, list, err) < 0 ? NULL : &list->text;
}

uint64_t tool_list_serial(const struct mcp_peer *peer, enum mcp_era era)
{
        const struct tool_list *list = find(peer->server, name_of(mcp_profile(peer, era)));

        return list ? list->serial : 0;
}

/* The list of a profile that the config does not have any more is dropped. */
bool tool_lists_refresh(struct mcp_server *server)
{
        const struct config *config = server->config;

        for (struct tool_list **at = &server->lists; *at;) {
                struct tool_list *list = *at;
                struct error err = {};
                int i = config_find_profile(config, list->profile, NULL);

                if (i < 0 && (*list->profile || config->n_profiles > 0)) {
                        *at = list->next;
                        list_free(list);
                        continue;
                }
                if (refresh(server, i < 0 ? NULL : &config->profiles[i], list, &err) < 0)
                        log_warning("the list of tools: %s", err.text);
                at = &list->next;
        }
        return server->lists;
}

void tool_lists_outdated(struct mcp_server *server)
{
        for (struct tool_list *list = server->lists; list; list = list->next)
                list->made_of = 0;
}

void tool_lists_free(struct mcp_server *server)
{
        while (server->lists) {
                struct tool_list *list = server->lists;
                server->lists = list->next;
                list_free(list);
        }
}
