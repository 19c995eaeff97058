/* cloister config import: which servers are added or left out, and the report about them. */
#include "supervisor/cli/config/config-import.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/printable.h"
#include "policy/config/add.h"
#include "policy/config/config.h"
#include "supervisor/cli/command/fail.h"
#include "supervisor/cli/config/config-target.h"
#include "supervisor/cli/config/config.h"
#include "supervisor/cli/config/import-list.h"
#include "supervisor/cli/config/import-source.h"
#include "supervisor/cli/config/import-write.h"

enum { TEXT_MAX = 4 * 1024 * 1024 };

/* Names and paths come from other files: escapes control characters. */
static void say(const char *text)
{
        printable_print(stdout, text);
}

static void say_item(const char *verb, const struct import_item *item)
{
        printf("%-9s", verb);
        if (*item->name) {
                say(item->name);
                fputs("  (", stdout);
                say(item->client);
                fputs(", ", stdout);
                say(item->file);
                fputs(")", stdout);
        } else {
                say(item->client);
        }
        if (item->text) {
                fputs(": ", stdout);
                say(item->text);
        }
        putchar('\n');
}

static void say_secrets(const struct import *import)
{
        bool first = true;

        for (size_t i = 0; i < import->n_secrets; i++) {
                const struct import_secret *secret = &import->secrets[i];
                if (import->copy && secret->value)
                        continue;
                if (first)
                        puts("\nNot copied, for they may be secrets. Set these variables where Cloister is started:");
                first = false;
                fputs("  ", stdout);
                say(secret->variable);
                fputs("  for ", stdout);
                say(secret->server);
                fputs(" (", stdout);
                say(secret->what);
                fputs(secret->value ? ", its value is in " : ", asked for by ", stdout);
                say(secret->file);
                puts(")");
        }
}

static void say_all(const struct import *import)
{
        for (size_t i = 0; i < import->n_taken; i++)
                say_item("took", &import->taken[i]);
        for (size_t i = 0; i < import->n_left_out; i++)
                say_item("left out", &import->left_out[i]);
        say_secrets(import);
}

static void add_items(yyjson_mut_doc *doc, yyjson_mut_val *root, const char *key,
                      const struct import_item *items, size_t n, const char *text)
{
        yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, key);

        for (size_t i = 0; i < n; i++) {
                yyjson_mut_val *item = yyjson_mut_arr_add_obj(doc, list);
                yyjson_mut_obj_add_strcpy(doc, item, "name", items[i].name);
                yyjson_mut_obj_add_strcpy(doc, item, "client", items[i].client);
                yyjson_mut_obj_add_strcpy(doc, item, "file", items[i].file);
                if (items[i].text)
                        yyjson_mut_obj_add_strcpy(doc, item, text, items[i].text);
        }
}

static int say_json(const struct import *import, const char *written)
{
        yyjson_mut_doc *doc = import->doc;
        yyjson_mut_val *root = yyjson_mut_obj(doc), *part;

        add_items(doc, root, "taken", import->taken, import->n_taken, "note");
        add_items(doc, root, "left_out", import->left_out, import->n_left_out, "why");
        part = yyjson_mut_obj_add_arr(doc, root, "variables");
        for (size_t i = 0; i < import->n_secrets; i++) {
                const struct import_secret *secret = &import->secrets[i];
                yyjson_mut_val *item = yyjson_mut_arr_add_obj(doc, part);
                yyjson_mut_obj_add_strcpy(doc, item, "variable", secret->variable);
                yyjson_mut_obj_add_strcpy(doc, item, "server", secret->server);
                yyjson_mut_obj_add_strcpy(doc, item, "what", secret->what);
                yyjson_mut_obj_add_strcpy(doc, item, "file", secret->file);
                yyjson_mut_obj_add_bool(doc, item, "copied", import->copy && secret->value);
        }
        part = yyjson_mut_obj_add_obj(doc, root, "mcpServers");
        for (size_t i = 0; i < import->n_taken; i++)
                yyjson_mut_obj_add(part, yyjson_mut_strcpy(doc, import->taken[i].name),
                                   yyjson_mut_val_mut_copy(doc, import->taken[i].entry));
        if (written)
                yyjson_mut_obj_add_strcpy(doc, root, "written", written);
        return config_print(root, true);
}

/* ---- the command ---- */

static size_t count_values(const struct import *import)
{
        size_t n = 0;

        for (size_t i = 0; i < import->n_secrets; i++)
                n += import->secrets[i].value != NULL;
        return n;
}

/* Asks only on a terminal. */
static bool wants_copies(const struct options *o, const struct import *import, const char *path)
{
        char answer[16] = "";
        size_t n = count_values(import);

        if (o->secrets || n == 0 || o->dry_run || o->json || !isatty(STDIN_FILENO) ||
            !isatty(STDERR_FILENO))
                return false;
        fprintf(stderr,
                "%zu value%s may be secret. Copy into %s, which only you can then read? [y/N] ", n,
                n == 1 ? "" : "s", path);
        return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static int read_again(struct import *import, const char *path, const char *const *words, size_t n,
                      bool copy, struct error *err)
{
        int r = import_open(import, path, copy, err);

        return r < 0 ? r : import_read(import, words, n, err);
}

/* Parses the new text as Cloister will, before it is written. */
static int check_text(const struct import *import, const struct buffer *text, const char *path,
                      struct error *err)
{
        struct config *config = config_new();
        int r = config ? config_add(config, path, buffer_bytes(text), text->length, err)
                       : error_errno(err, ENOMEM, "import");

        for (size_t i = 0; i < import->n_taken && r >= 0; i++) {
                bool found = false;
                for (size_t k = 0; k < config->n_servers; k++)
                        found = found ||
                                strcmp(config->servers[k].name, import->taken[i].name) == 0;
                if (!found)
                        r = error_set(err, EINVAL, "%s: \"%s\" would not be found in it", path,
                                      import->taken[i].name);
        }
        config_free(config);
        return r;
}

static int finish(const struct options *o, const struct import *import, const char *path,
                  struct error *err)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(TEXT_MAX);
        bool dry = o->dry_run;
        int r = 0;

        if (import->n_taken > 0) {
                r = import_text(import, &text, err);
                if (r >= 0)
                        r = check_text(import, &text, path, err);
                if (r >= 0 && !dry)
                        r = config_target_write(path, &text,
                                                import->copy && count_values(import) > 0, err);
        }
        if (r < 0)
                return r;
        if (o->json)
                return say_json(import, import->n_taken > 0 && !dry ? path : NULL);
        say_all(import);
        if (import->n_taken == 0)
                puts("nothing to take: no file was changed");
        else if (dry)
                printf("\n%s would be:\n%.*s", path, (int)text.length, buffer_bytes(&text));
        else
                printf("\nwrote %s\n", path);
        return 0;
}

int cli_config_import(const struct options *o, const char *const *words, size_t n)
{
        bool copy = o->secrets && strcmp(o->secrets, "copy") == 0;
        struct import import = {};
        struct error err = {};
        char path[PATH_MAX];

        int r = config_target_path(o, "imported.json", path, &err);
        if (r >= 0)
                r = read_again(&import, path, words, n, copy, &err);
        if (r >= 0 && wants_copies(o, &import, path)) {
                import_done(&import);
                r = read_again(&import, path, words, n, true, &err);
        }
        if (r >= 0)
                r = finish(o, &import, path, &err);
        import_done(&import);
        return r < 0 ? cli_fail(1, &err) : r;
}
