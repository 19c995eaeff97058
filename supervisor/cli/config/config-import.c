/*
 * `cloister config import`: the config files of other clients, how to find the object of servers in them, and the report about
 * the servers that were added or left out.
 */
#include "supervisor/cli/config/config-import.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/plural.h"
#include "base/printable.h"
#include "policy/config/add.h"
#include "policy/config/config.h"
#include "policy/did-you-mean.h"
#include "supervisor/cli/config/entry-text.h"
#include "supervisor/cli/config/import.h"
#include "supervisor/cli/config/tool-count.h"
#include "supervisor/config/config-files.h"

enum { FILE_MAX = 32 * 1024 * 1024, FILES_IN_DIRECTORY = 64 };

/* The base of a path. */
enum base { HOME, CONFIG_HOME, HERE };

static const struct source {
        const char *word, *client;
        enum base base;
        const char *environment; /* a variable that replaces the path up to its last component */
        const char *path;        /* a directory of *.json if it ends with a slash */
        const char *key;         /* of the object of servers */
        unsigned syntax;
} sources[] = {
        {"claude-code", "Claude Code", HOME, "CLAUDE_CONFIG_DIR", ".claude.json", "mcpServers",
         IMPORT_MILLISECONDS},
        {"claude-code", "Claude Code", HERE, NULL, ".mcp.json", "mcpServers", IMPORT_MILLISECONDS},
        {"claude-desktop", "Claude Desktop", CONFIG_HOME, NULL, "Claude/claude_desktop_config.json",
         "mcpServers", 0},
        {"cursor", "Cursor", HOME, NULL, ".cursor/mcp.json", "mcpServers", 0},
        {"cursor", "Cursor", HERE, NULL, ".cursor/mcp.json", "mcpServers", 0},
        {"vscode", "VS Code", CONFIG_HOME, NULL, "Code/User/mcp.json", "servers", 0},
        {"vscode", "VS Code", HERE, NULL, ".vscode/mcp.json", "servers", 0},
        {"codex", "Codex", HOME, "CODEX_HOME", ".codex/config.toml", "mcp_servers", 0},
        {"gemini", "Gemini CLI", HOME, NULL, ".gemini/settings.json", "mcpServers",
         IMPORT_MILLISECONDS | IMPORT_DOLLAR},
        {"qwen", "Qwen Code", HOME, NULL, ".qwen/settings.json", "mcpServers",
         IMPORT_MILLISECONDS | IMPORT_DOLLAR},
        {"opencode", "opencode", CONFIG_HOME, NULL, "opencode/opencode.json", "mcp",
         IMPORT_MILLISECONDS | IMPORT_START | IMPORT_BRACES},
        {"opencode", "opencode", CONFIG_HOME, NULL, "opencode/opencode.jsonc", "mcp",
         IMPORT_MILLISECONDS | IMPORT_START | IMPORT_BRACES},
        {"mcps", "MCPs", HOME, "CODEMODE_MCPS_DIR", "MCPs/", "mcpServers", 0},
};

static int path_of(const struct source *source, char ret[PATH_MAX])
{
        const char *home = path_home();
        const char *moved = source->environment ? getenv(source->environment) : NULL;
        const char *last = strrchr(source->path, '/');
        int n;

        if (moved && *moved)
                n = snprintf(ret, PATH_MAX, "%s/%s", moved, last ? last + 1 : source->path);
        else if (source->base == HERE)
                n = getcwd(ret, PATH_MAX) ? (int)strlen(ret) : PATH_MAX;
        else if (source->base == CONFIG_HOME)
                return path_in_user_directory("XDG_CONFIG_HOME", ".config", source->path, ret,
                                              PATH_MAX);
        else if (!home)
                return -ENOENT;
        else
                n = snprintf(ret, PATH_MAX, "%s/%s", home, source->path);
        if (source->base == HERE && n < PATH_MAX)
                n += snprintf(ret + n, PATH_MAX - (size_t)n, "/%s", source->path);
        return n > 0 && n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* -ENOENT: there is no such file. */
static int read_document(struct entry_text *file, const char *path, struct error *err)
{
        size_t n = strlen(path);

        file->is_toml = n > 5 && strcmp(path + n - 5, ".toml") == 0;
        int r = entry_text_read(file, path, FILE_MAX, err);
        return r == 0 ? error_errno(err, ENOENT, "%s", path) : r;
}

static int take_all(struct import *import, const struct import_origin *origin, yyjson_val *servers,
                    struct error *err)
{
        size_t i, n;
        yyjson_val *name, *entry;
        int r = 0;

        yyjson_obj_foreach (servers, i, n, name, entry) {
                if (r < 0)
                        break;
                r = yyjson_is_obj(entry)
                            ? import_take(import, origin, yyjson_get_str(name), entry, err)
                            : import_leave_out(import, origin, yyjson_get_str(name),
                                               "it is not an object", err);
        }
        return r;
}

/* Claude Code's servers of projects. */
static int take_projects(struct import *import, const struct import_origin *origin,
                         yyjson_val *projects, struct error *err)
{
        size_t i, n;
        yyjson_val *folder, *project;
        int r = 0;

        yyjson_obj_foreach (projects, i, n, folder, project) {
                struct import_origin there = *origin;
                there.folder = yyjson_get_str(folder);
                if (r >= 0)
                        r = take_all(import, &there, yyjson_obj_get(project, "mcpServers"), err);
        }
        return r;
}

/* The object of servers in a file of an unknown client. */
static yyjson_val *find_servers(yyjson_val *root, unsigned *syntax)
{
        static const struct {
                const char *key;
                unsigned syntax;
        } keys[] = {
                {"mcpServers", 0},      {"servers", 0},
                {"mcp_servers", 0},     {"mcp", IMPORT_MILLISECONDS | IMPORT_START | IMPORT_BRACES},
                {"context_servers", 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
                yyjson_val *servers = yyjson_obj_get(root, keys[i].key);
                /* It may be one level deeper, as in VS Code's settings. */
                yyjson_val *deeper = yyjson_obj_get(servers, "servers");
                *syntax = deeper ? 0 : keys[i].syntax;
                if (yyjson_is_obj(deeper))
                        return deeper;
                if (yyjson_is_obj(servers))
                        return servers;
        }
        return NULL;
}

static int read_file(struct import *import, const struct source *source, const char *path,
                     struct error *err)
{
        _cleanup_(entry_text_done) struct entry_text file = {};
        char folder[PATH_MAX] = "";
        struct import_origin origin = {source->client, path, NULL, source->syntax};

        int r = read_document(&file, path, err);
        if (r < 0)
                return r;
        yyjson_val *root = yyjson_doc_get_root(file.doc);
        if (source->base == HERE && getcwd(folder, sizeof(folder)))
                origin.folder = folder;
        r = take_all(import, &origin, yyjson_obj_get(root, source->key), err);
        if (r >= 0 && source == &sources[0])
                r = take_projects(import, &origin, yyjson_obj_get(root, "projects"), err);
        return r;
}

/* In the user's home, .cursor/mcp.json is both the user's file and that of the working directory. */
static bool was_read(const struct source *source, const char *path)
{
        char before[PATH_MAX];
        struct stat st, other;

        if (stat(path, &st) < 0)
                return false;
        for (const struct source *one = sources; one < source; one++) {
                if (strcmp(one->word, source->word) == 0 && path_of(one, before) >= 0 &&
                    stat(before, &other) == 0 && st.st_dev == other.st_dev &&
                    st.st_ino == other.st_ino)
                        return true;
        }
        return false;
}

/* A client's broken file is reported, not an error. */
static int read_found(struct import *import, const struct source *source, const char *path,
                      struct error *err)
{
        struct error why = {};
        struct import_origin origin = {source->client, path, NULL, 0};

        if (access(path, F_OK) < 0 || was_read(source, path))
                return 0;
        int r = read_file(import, source, path, &why);
        if (r == -ENOMEM)
                return error_errno(err, ENOMEM, "import");
        return r < 0 ? import_leave_out(import, &origin, "", why.text, err) : 0;
}

static int read_directory(struct import *import, const struct source *source, const char *path,
                          struct error *err)
{
        struct dirent **entries;
        int n = config_files_scan(path, &entries), r = 0;

        for (int i = 0; i < n; i++) {
                _cleanup_free_ char *file = NULL;
                if (r >= 0 && i < FILES_IN_DIRECTORY &&
                    asprintf(&file, "%s/%s", path, entries[i]->d_name) >= 0)
                        r = read_found(import, source, file, err);
                free(entries[i]);
        }
        if (n >= 0)
                free(entries);
        return r;
}

static int read_source(struct import *import, const struct source *source, struct error *err)
{
        char path[PATH_MAX];
        size_t n;

        if (path_of(source, path) < 0)
                return 0;
        n = strlen(path);
        if (source->path[strlen(source->path) - 1] != '/')
                return read_found(import, source, path, err);
        while (n > 1 && path[n - 1] == '/')
                path[--n] = '\0';
        return read_directory(import, source, path, err);
}

static int read_named(struct import *import, const char *path, struct error *err)
{
        _cleanup_(entry_text_done) struct entry_text file = {};
        unsigned syntax = 0;

        int r = read_document(&file, path, err);
        if (r < 0)
                return r;
        yyjson_val *servers = find_servers(yyjson_doc_get_root(file.doc), &syntax);
        if (!servers)
                return error_set(err, EINVAL,
                                 "%s: no servers in it (mcpServers, servers, mcp_servers, mcp)",
                                 path);
        struct import_origin origin = {"file", path, NULL, syntax};
        return take_all(import, &origin, servers, err);
}

static int read_word(struct import *import, const char *word, struct error *err)
{
        const char *words[ARRAY_SIZE(sources) + 1] = {};
        bool found = false;
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(sources) && r >= 0; i++) {
                words[i] = sources[i].word;
                if (strcmp(sources[i].word, word) != 0)
                        continue;
                found = true;
                r = read_source(import, &sources[i], err);
        }
        if (found)
                return r;
        if (strchr(word, '/') || strchr(word, '.') || access(word, F_OK) == 0)
                return read_named(import, word, err);
        const char *meant = did_you_mean(word, words);
        if (meant)
                return error_set(err, EINVAL, "\"%s\" is not a client: did you mean \"%s\"?", word,
                                 meant);
        return error_set(err, EINVAL,
                         "%s is neither a file nor a client (see 'cloister config import --help')",
                         word);
}

/* Reads the named sources (clients, or paths of files); n == 0: all clients. A named file that
 * cannot be read is an error. */
static int import_read(struct import *import, const char *const *words, size_t n, struct error *err)
{
        int r = 0;

        for (size_t i = 0; i < n && r >= 0; i++)
                r = read_word(import, words[i], err);
        for (size_t i = 0; n == 0 && i < ARRAY_SIZE(sources) && r >= 0; i++)
                r = read_source(import, &sources[i], err);
        return r;
}

enum { TEXT_MAX = 4 * 1024 * 1024, OUTPUT_MAX = 64 * 1024 * 1024 };

/* ---- the report ---- */

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
        return cli_print_json(&out, "config");
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
                plural(n), path);
        return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static const char *const keys[] = {"mcpServers", NULL};

static int read_again(struct import *import, const char *path, const char *const *words, size_t n,
                      bool copy, struct error *err)
{
        *import = (struct import){.copy = copy, .existing.keys = keys};
        int r = entry_text_read(&import->existing, path, CONFIG_FILE_SIZE_MAX, err);
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
        const struct entry_text *existing = &import->existing;
        int r = existing->text ? buffer_append(to, existing->text, existing->n) : 0;

        for (size_t i = import->n_taken; i-- > 0 && r >= 0;) {
                _cleanup_json_ yyjson_doc *doc = NULL;
                _cleanup_buffer_ struct buffer text = BUFFER_INIT(TEXT_MAX);
                bool there = to->length > 0;

                if (there)
                        r = json_parse_config(buffer_bytes(to), to->length, &doc, err);
                const struct entry_text file = {.keys = keys,
                                                .text = there ? buffer_bytes(to) : NULL,
                                                .n = to->length,
                                                .doc = doc};
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
                        r = entry_text_write(path, &text, import->copy && count_values(import) > 0,
                                             err);
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
        if (!dry && import->n_taken > 0)
                tool_count_print(o);
        return 0;
}

int cli_config_import(const struct options *o, const char *const *words, size_t n)
{
        bool copy = o->secrets && strcmp(o->secrets, "copy") == 0;
        struct import import = {};
        struct error err = {};
        char path[PATH_MAX];

        int r = entry_text_path(o, "imported.json", path, &err);
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
