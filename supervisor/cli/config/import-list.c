/* The servers of an import: which are added or left out. */
#include "supervisor/cli/config/import-list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/config/add.h"
#include "policy/config/config.h"
#include "policy/config/server.h"
#include "supervisor/cli/config/config-target.h"
#include "supervisor/cli/config/import-entry.h"

enum { TEXT_MAX = 4 * 1024 * 1024, NOTES_MAX = 4096 };

static int no_memory(struct error *err)
{
        return error_errno(err, ENOMEM, "import");
}

int import_open(struct import *import, const char *path, bool copy, struct error *err)
{
        *import = (struct import){.copy = copy};
        int r = config_target_read(path, &import->existing, &import->existing_length,
                                   &import->existing_doc, err);
        return r < 0 ? r : 0;
}

static void free_items(struct import_item *items, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                free(items[i].name);
                free(items[i].client);
                free(items[i].file);
                free(items[i].text);
                free(items[i].entry);
        }
        free(items);
}

void import_done(struct import *import)
{
        for (size_t i = 0; i < import->n_secrets; i++) {
                free(import->secrets[i].variable);
                free(import->secrets[i].server);
                free(import->secrets[i].what);
                free(import->secrets[i].file);
                free(import->secrets[i].value);
        }
        free(import->secrets);
        free_items(import->taken, import->n_taken);
        free_items(import->left_out, import->n_left_out);
        free(import->existing);
        yyjson_doc_free(import->existing_doc);
        *import = (struct import){};
}

/* Takes entry. */
static int add_item(struct import_item **list, size_t *n, const struct import_origin *origin,
                    const char *name, const char *text, char *entry, struct error *err)
{
        struct import_item *grown = reallocarray(*list, *n + 1, sizeof(*grown));

        if (!grown) {
                free(entry);
                return no_memory(err);
        }
        *list = grown;
        struct import_item *item = &grown[(*n)++];
        *item = (struct import_item){strdup(name), strdup(origin->client), strdup(origin->file),
                                     text ? strdup(text) : NULL, entry};
        return item->name && item->client && item->file && (!text || item->text) ? 0
                                                                                 : no_memory(err);
}

int import_leave_out(struct import *import, const struct import_origin *origin, const char *name,
                     const char *why, struct error *err)
{
        return add_item(&import->left_out, &import->n_left_out, origin, name, why, NULL, err);
}

static const struct import_item *find_taken(const struct import *import, const char *name)
{
        for (size_t i = 0; i < import->n_taken; i++)
                if (strcmp(import->taken[i].name, name) == 0)
                        return &import->taken[i];
        return NULL;
}

static bool is_there(const struct import *import, const char *name)
{
        yyjson_val *root = yyjson_doc_get_root(import->existing_doc);

        return yyjson_obj_get(yyjson_obj_get(root, "mcpServers"), name) != NULL;
}

/* Reads the entry as Cloister will read it. Returns why it cannot be used, "" if it can. */
static int try_entry(const char *name, const char *entry, char *why, size_t size)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(TEXT_MAX);
        struct config *config = config_new();
        struct error err = {};

        *why = '\0';
        int r = config ? buffer_append_text(&b, "{\"mcpServers\": {") : -ENOMEM;
        if (r >= 0)
                r = json_append_string(&b, name, strlen(name));
        if (r >= 0)
                r = buffer_append_text(&b, ": ");
        if (r >= 0)
                r = buffer_append_text(&b, entry);
        if (r >= 0)
                r = buffer_append_text(&b, "}}");
        if (r >= 0)
                r = config_add(config, name, buffer_bytes(&b), b.length, &err);
        if (r < 0 && r != -ENOMEM)
                snprintf(why, size, "%s", err.text);
        else if (r >= 0 && config_server_is_ourselves(&config->servers[0]))
                snprintf(why, size, "it is Cloister itself");
        else if (r >= 0 && config->servers[0].problem)
                snprintf(why, size, "%s", config->servers[0].problem);
        config_free(config);
        return r == -ENOMEM ? r : 0;
}

static void forget_secrets(struct import *import, size_t from)
{
        for (; import->n_secrets > from; import->n_secrets--) {
                struct import_secret *secret = &import->secrets[import->n_secrets - 1];
                free(secret->variable);
                free(secret->server);
                free(secret->what);
                free(secret->file);
                free(secret->value);
        }
}

int import_take(struct import *import, const struct import_origin *origin, const char *name,
                yyjson_val *entry, struct error *err)
{
        _cleanup_buffer_ struct buffer notes = BUFFER_INIT(NOTES_MAX);
        size_t n_secrets = import->n_secrets;
        const struct import_item *other = find_taken(import, name);
        _cleanup_free_ char *new = NULL;
        const char *why = NULL;
        char text[512] = "";

        int r = import_translate(import, origin, name, entry, &new, &notes, &why, err);
        if (r < 0)
                return r;
        if (!why && try_entry(name, new, text, sizeof(text)) < 0)
                return no_memory(err);
        if (!why && *text)
                why = text;
        if (!why && is_there(import, name))
                why = "your config has a server of this name";
        if (!why && other && strcmp(new, other->entry) == 0)
                snprintf(text, sizeof(text), "the same as that of %s", other->client);
        else if (!why && other)
                snprintf(text, sizeof(text),
                         "another server of this name was taken from %s; rename one of them",
                         other->client);
        if (!why && *text)
                why = text;
        if (why) {
                forget_secrets(import, n_secrets);
                return import_leave_out(import, origin, name, why, err);
        }
        if (buffer_append(&notes, "", 1) < 0)
                return no_memory(err);
        return add_item(&import->taken, &import->n_taken, origin, name,
                        notes.length > 1 ? buffer_bytes(&notes) : NULL, take_ptr(new), err);
}
