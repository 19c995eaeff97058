/* cloister config import: which servers are added or left out, and the report about them. */
#include "supervisor/cli/config/config-import.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/printable.h"
#include "policy/config/add.h"
#include "policy/config/config.h"
#include "supervisor/cli/config/config-target.h"
#include "supervisor/cli/config/config.h"
#include "supervisor/cli/config/entry-text.h"
#include "supervisor/cli/config/import-list.h"
#include "supervisor/cli/config/import-source.h"

enum { TEXT_MAX = 4 * 1024 * 1024, OUTPUT_MAX = 64 * 1024 * 1024 };

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
                        puts("\nNot copied, because they may be secrets. Set these variables where Cloister is started:");
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

static void add_items(struct json_out *out, const char *key, const struct import_item *items,
                      size_t n, const char *text)
{
        json_out_begin(out, key, '[');
        for (size_t i = 0; i < n; i++) {
                json_out_begin(out, NULL, '{');
                json_out_text(out, "name", items[i].name);
                json_out_text(out, "client", items[i].client);
                json_out_text(out, "file", items[i].file);
                if (items[i].text)
                        json_out_text(out, text, items[i].text);
                json_out_end(out, '}');
        }
        json_out_end(out, ']');
}

static int say_json(const struct import *import, const char *written)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(OUTPUT_MAX);
        struct json_out out = {.to = &text, .indent = true};

        json_out_begin(&out, NULL, '{');
        add_items(&out, "taken", import->taken, import->n_taken, "note");
        add_items(&out, "left_out", import->left_out, import->n_left_out, "why");
        json_out_begin(&out, "variables", '[');
        for (size_t i = 0; i < import->n_secrets; i++) {
                const struct import_secret *secret = &import->secrets[i];
                json_out_begin(&out, NULL, '{');
                json_out_text(&out, "variable", secret->variable);
                json_out_text(&out, "server", secret->server);
                json_out_text(&out, "what", secret->what);
                json_out_text(&out, "file", secret->file);
                json_out_bool(&out, "copied", import->copy && secret->value);
                json_out_end(&out, '}');
        }
        json_out_end(&out, ']');
        json_out_begin(&out, "mcpServers", '{');
        for (size_t i = 0; i < import->n_taken; i++) {
                const struct import_item *item = &import->taken[i];
                json_out_key(&out, item->name, strlen(item->name));
                json_out_raw(&out, NULL, item->entry, strlen(item->entry));
        }
        json_out_end(&out, '}');
        if (written)
                json_out_text(&out, "written", written);
        json_out_end(&out, '}');
        return config_print(&out);
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

/* Adds one entry to the text. The entry is laid out with two spaces. */
static int add_entry(const struct import_item *item, const struct entry_text *file,
                     struct buffer *to, struct error *err)
{
        _cleanup_buffer_ struct buffer entry = BUFFER_INIT(TEXT_MAX);
        struct json_out out = {.to = &entry, .indent = true};

        json_out_raw(&out, NULL, item->entry, strlen(item->entry));
        if (out.error < 0 || buffer_append(&entry, "", 1) < 0)
                return error_errno(err, ENOMEM, "import");
        return entry_text_add(file, item->name, buffer_bytes(&entry), to, err);
}

/* The existing text with the new entries, the last one first because each goes behind the brace. */
static int make_text(const struct import *import, struct buffer *to, struct error *err)
{
        static const char *const keys[] = {"mcpServers", NULL};
        int r = import->existing ? buffer_append(to, import->existing, import->existing_length) : 0;

        for (size_t i = import->n_taken; i-- > 0 && r >= 0;) {
                _cleanup_json_ yyjson_doc *doc = NULL;
                _cleanup_buffer_ struct buffer text = BUFFER_INIT(TEXT_MAX);
                bool there = to->length > 0;

                if (there)
                        r = json_parse_config(buffer_bytes(to), to->length, &doc, err);
                const struct entry_text file = {there ? buffer_bytes(to) : NULL, to->length, doc,
                                                keys};
                if (r >= 0)
                        r = add_entry(&import->taken[i], &file, &text, err);
                to->length = 0;
                if (r >= 0)
                        r = buffer_append(to, buffer_bytes(&text), text.length);
        }
        return r;
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
                r = make_text(import, &text, err);
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
