/* Lists of what the config publishes. */
#include "supervisor/mcp/publish/published.h"

#include <string.h>

#include "policy/published-name.h"
#include "supervisor/mcp/state.h"

static_assert((int)PUBLISHED_URI_MAX <= (int)RESOURCE_PATH_MAX, "a URI that is subscribed to");

enum { SHOWN = 1, HIDDEN = 2 };

static const enum published_list list_of[PUBLISHED_KINDS] = {
        [PUBLISHED_TOOL] = LIST_TOOLS,
        [PUBLISHED_PROMPT] = LIST_PROMPTS,
        [PUBLISHED_RESOURCE] = LIST_RESOURCES,
        [PUBLISHED_TEMPLATE] = LIST_RESOURCES,
};

/* Whether an entry is offered to the principal. */
static bool is_offered(const struct mcp_principal *principal, const struct config_published *entry)
{
        size_t i = (size_t)(entry - principal->server->config->published);
        const struct published_choice *view = &principal->published;

        if (!config_published_has_code(entry))
                return false;
        if (view->generation == principal->server->published.generation && view->changed[i] != 0)
                return view->changed[i] == SHOWN;
        return !entry->hidden;
}

const struct config_published *published_find(const struct mcp_principal *principal,
                                              enum config_published_kind kind, const char *name)
{
        for (size_t i = 0; i < principal->server->config->n_published; i++) {
                const struct config_published *entry = &principal->server->config->published[i];
                if (name && entry->kind == kind && strcmp(entry->name, name) == 0 &&
                    is_offered(principal, entry))
                        return entry;
        }
        return NULL;
}

const struct config_published *published_find_uri(const struct mcp_principal *principal,
                                                  const char *uri, size_t n,
                                                  struct buffer *variables)
{
        _cleanup_buffer_ struct buffer unused = BUFFER_INIT(RESULT_MAX);

        if (!uri || !published_uri_valid(uri, n))
                return NULL;
        const struct config_published *entry = published_find(principal, PUBLISHED_RESOURCE, uri);
        if (entry)
                return variables && buffer_append_text(variables, "{}") < 0 ? NULL : entry;
        for (size_t i = 0; i < principal->server->config->n_published; i++) {
                entry = &principal->server->config->published[i];
                if (entry->kind == PUBLISHED_TEMPLATE && is_offered(principal, entry) &&
                    published_template_match(entry->name, uri, n, variables ? variables : &unused) >
                            0)
                        return entry;
        }
        return NULL;
}

bool published_take_uri(const struct mcp_principal *principal, const char *uri, size_t n,
                        struct resource_uri *ret)
{
        if (!published_find_uri(principal, uri, n, NULL))
                return false;
        *ret = (struct resource_uri){.kind = RESOURCE_PUBLISHED};
        memcpy(ret->path, uri, n + 1);
        return true;
}

void published_put(const struct mcp_principal *principal, enum config_published_kind kind,
                   struct json_out *out)
{
        for (size_t i = 0; i < principal->server->config->n_published; i++) {
                const struct config_published *entry = &principal->server->config->published[i];
                if (entry->kind == kind && entry->listed && is_offered(principal, entry))
                        json_out_raw(out, NULL, entry->entry, strlen(entry->entry));
        }
}

uint64_t published_serial(const struct mcp_principal *principal, enum published_list list)
{
        return principal->server->published.serials[list] + principal->published.serials[list];
}

void published_show(struct mcp_principal *principal, const char *name, bool shown)
{
        struct published_choice *view = &principal->published;

        if (view->generation != principal->server->published.generation) {
                memset(view->changed, 0, sizeof(view->changed));
                view->generation = principal->server->published.generation;
        }
        for (size_t i = 0; i < principal->server->config->n_published; i++) {
                const struct config_published *entry = &principal->server->config->published[i];
                if (strcmp(entry->name, name) != 0 || !config_published_has_code(entry) ||
                    is_offered(principal, entry) == shown)
                        continue;
                view->changed[i] = shown ? SHOWN : HIDDEN;
                view->serials[list_of[entry->kind]]++;
        }
}

/* Whether two configs have the same entries in a list. */
static bool same(const struct config *a, const struct config *b, enum published_list list)
{
        size_t i = 0, j = 0;

        for (;; i++, j++) {
                while (i < a->n_published && list_of[a->published[i].kind] != list)
                        i++;
                while (j < b->n_published && list_of[b->published[j].kind] != list)
                        j++;
                if (i == a->n_published || j == b->n_published)
                        return i == a->n_published && j == b->n_published;
                if (strcmp(a->published[i].entry, b->published[j].entry) != 0 ||
                    a->published[i].hidden != b->published[j].hidden ||
                    a->published[i].listed != b->published[j].listed ||
                    config_published_has_code(&a->published[i]) !=
                            config_published_has_code(&b->published[j]))
                        return false;
        }
}

void published_reload(struct mcp_server *server, const struct config *before)
{
        bool all_same = true;

        for (int list = 0; list < PUBLISHED_LISTS; list++) {
                if (same(before, server->config, (enum published_list)list))
                        continue;
                server->published.serials[list]++;
                all_same = false;
        }
        /* The choices of code are kept by index. */
        if (!all_same)
                server->published.generation++;
}
