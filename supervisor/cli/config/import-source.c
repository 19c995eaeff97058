/* The config files of other clients, and how to find the object of servers in them. */
#include "supervisor/cli/config/import-source.h"

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
#include "policy/did-you-mean.h"
#include "supervisor/cli/config/import-list.h"
#include "supervisor/cli/config/import-toml.h"

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

static int read_document(const char *path, yyjson_doc **ret, struct error *err)
{
        _cleanup_free_ char *text = NULL;
        _cleanup_close_ int fd = -1;
        size_t length = 0, n = strlen(path);

        if (n > 5 && strcmp(path + n - 5, ".toml") == 0) {
                int r = import_toml(path, &text, &length, err);
                if (r >= 0)
                        r = json_parse(text, length, ret, err);
                return r;
        }
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
                return error_errno(err, errno, "%s", path);
        int r = fd_read_whole(fd, FILE_MAX, &text, &length, err);
        if (r >= 0)
                r = json_parse_config(text, length, ret, err);
        return r < 0 ? error_context(err, "%s", path) : 0;
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
        _cleanup_json_ yyjson_doc *doc = NULL;
        char folder[PATH_MAX] = "";
        struct import_origin origin = {source->client, path, NULL, source->syntax};

        int r = read_document(path, &doc, err);
        if (r < 0)
                return r;
        yyjson_val *root = yyjson_doc_get_root(doc);
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

static int is_json(const struct dirent *entry)
{
        size_t n = strlen(entry->d_name);

        return entry->d_name[0] != '.' && n > 5 && strcmp(entry->d_name + n - 5, ".json") == 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
        return strcmp((*a)->d_name, (*b)->d_name);
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
        int n = scandir(path, &entries, is_json, by_bytes), r = 0;

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
        _cleanup_json_ yyjson_doc *doc = NULL;
        unsigned syntax = 0;

        int r = read_document(path, &doc, err);
        if (r < 0)
                return r;
        yyjson_val *servers = find_servers(yyjson_doc_get_root(doc), &syntax);
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

int import_read(struct import *import, const char *const *words, size_t n, struct error *err)
{
        int r = 0;

        for (size_t i = 0; i < n && r >= 0; i++)
                r = read_word(import, words[i], err);
        for (size_t i = 0; n == 0 && i < ARRAY_SIZE(sources) && r >= 0; i++)
                r = read_source(import, &sources[i], err);
        return r;
}
