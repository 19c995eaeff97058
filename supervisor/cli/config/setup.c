/*
 * `cloister setup`: the entry for Cloister in the config of an MCP client.
 *
 * The text of the config keeps its other bytes (entry-text.c). TOML, of which Codex's config is made, is
 * edited by lines, and Python's tomllib says before and after what is in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "policy/did-you-mean.h"
#include "supervisor/cli/config/entry-text.h"
#include "supervisor/cli/config/replace.h"
#include "supervisor/cli/config/setup.h"
#include "supervisor/cli/config/tool-count.h"

enum { FILE_MAX = 32 * 1024 * 1024, TEXT_MAX = FILE_MAX + 64 * 1024 };

const char cli_help_setup[] =
        "CLIENT is claude, claude-desktop, codex, cursor, gemini, opencode, qwen or vscode. Shows the file\n"
        "and the entry that it gets, and asks before it writes: --yes does not ask, --dry-run only shows.\n"
        "Nothing else in the file changes. --remove takes the entry out again.\n"
        "\n"
        "The client then starts this cloister by its path. Restart the client, or have it read its config\n"
        "again. 'cloister config import' copies the client's other servers, so that code can call them.\n"
        "\n"
        "--replace NAME changes the entry that starts codemode-lite, code-sandbox-mcp, llm-sandbox or\n"
        "mcp-python-exec-sandbox: it then starts 'cloister mcp --as NAME', with the flags, the variables\n"
        "and all other bytes as they were. --replace NAME --remove brings the old bytes back. An entry\n"
        "whose command is not known stays, and one line names it. FILE is a config of a project, such as\n"
        ".mcp.json or .cursor/mcp.json, instead of the user's own file.\n"
        "\n"
        "Examples:\n"
        "  cloister setup claude\n"
        "  cloister setup codex --yes\n"
        "  cloister setup cursor --remove\n"
        "  cloister setup claude --replace llm-sandbox\n"
        "  cloister setup claude --replace codemode-lite .mcp.json\n";

static const char name[] = "cloister";

static const char *const mcp_servers[] = {"mcpServers", NULL}, *const servers[] = {"servers", NULL},
                         *const toml_servers[] = {"mcp_servers", NULL},
                         *const mcp[] = {"mcp", NULL};

/* docs and sources of the clients, seen in 2026-11: examples/clients.md has the same. */
static const struct client {
        const char *word, *title;
        const char *environment; /* a variable that names the directory instead, or NULL */
        const char *base;        /* NULL: the home, else a variable of the XDG specification */
        const char *directory, *file;
        const char *const *keys;    /* of the object of servers */
        const char *before, *after; /* the entry, around the path of cloister as a JSON string */
        const char *projects; /* an object of projects, each of which may have servers; or NULL */
} clients[] = {
        {"claude", "Claude Code", "CLAUDE_CONFIG_DIR", NULL, "", ".claude.json", mcp_servers,
         "{\n  \"type\": \"stdio\",\n  \"command\": ", ",\n  \"args\": [\"mcp\"]\n}", "projects"},
        {"claude-desktop", "Claude Desktop", NULL, "XDG_CONFIG_HOME", "Claude/",
         "claude_desktop_config.json", mcp_servers,
         "{\n  \"command\": ", ",\n  \"args\": [\"mcp\"]\n}"},
        {"codex", "Codex", "CODEX_HOME", NULL, ".codex/", "config.toml", toml_servers,
         "command = ", "\nargs = [\"mcp\"]\nrequired = true\ntool_timeout_sec = 600\n"},
        {"cursor", "Cursor", NULL, NULL, ".cursor/", "mcp.json", mcp_servers,
         "{\n  \"command\": ", ",\n  \"args\": [\"mcp\"]\n}"},
        {"gemini", "Gemini CLI", NULL, NULL, ".gemini/", "settings.json", mcp_servers,
         "{\n  \"command\": ", ",\n  \"args\": [\"mcp\"],\n  \"timeout\": 600000\n}"},
        {"opencode", "opencode", NULL, "XDG_CONFIG_HOME", "opencode/", "opencode.json", mcp,
         "{\n  \"type\": \"local\",\n  \"command\": [", ", \"mcp\"],\n  \"enabled\": true\n}"},
        {"qwen", "Qwen Code", NULL, NULL, ".qwen/", "settings.json", mcp_servers,
         "{\n  \"command\": ", ",\n  \"args\": [\"mcp\"],\n  \"timeout\": 600000\n}"},
        {"vscode", "VS Code", NULL, "XDG_CONFIG_HOME", "Code/User/", "mcp.json", servers,
         "{\n  \"type\": \"stdio\",\n  \"command\": ", ",\n  \"args\": [\"mcp\"]\n}"},
};

static const struct client *find_client(const char *word, struct error *err)
{
        const char *words[ARRAY_SIZE(clients) + 1] = {};

        for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
                if (strcmp(clients[i].word, word) == 0)
                        return &clients[i];
                words[i] = clients[i].word;
        }
        const char *nearest = did_you_mean(word, words);
        if (nearest)
                error_set(err, EINVAL, "no client '%s' is known: did you mean %s?", word, nearest);
        else
                error_set(
                        err, EINVAL,
                        "no client '%s' is known (claude, claude-desktop, codex, cursor, gemini, opencode, qwen or vscode); examples/clients.md has entries to copy",
                        word);
        return NULL;
}

static int file_of(const struct client *client, const char *file, char ret[PATH_MAX],
                   struct error *err)
{
        const char *moved = client->environment ? getenv(client->environment) : NULL;
        const char *home = getenv("HOME");
        char below[PATH_MAX];
        int n;

        snprintf(below, sizeof(below), "%s%s", client->directory, file);
        if (moved && moved[0] == '/')
                n = snprintf(ret, PATH_MAX, "%s/%s", moved, file);
        else if (client->base)
                n = path_in_user_directory(client->base, ".config", below, ret, PATH_MAX);
        else if (!home || home[0] != '/')
                n = -ENOENT;
        else
                n = snprintf(ret, PATH_MAX, "%s/%s", home, below);
        if (n < 0)
                return error_set(err, ENOENT, "HOME is not set: the config of %s is not known",
                                 client->title);
        return n < PATH_MAX ? 0 : error_errno(err, ENAMETOOLONG, "%s", file);
}

static int path_of(const struct client *client, char ret[PATH_MAX], struct error *err)
{
        /* opencode reads both, and people write comments into the second. */
        if (client->keys == mcp && file_of(client, "opencode.jsonc", ret, err) == 0 &&
            access(ret, F_OK) == 0)
                return 0;
        return file_of(client, client->file, ret, err);
}

/* ---- the text ---- */

struct edit {
        const struct client *client;
        char path[PATH_MAX];
        struct entry_text file;
        char *entry; /* as it is written */
        struct buffer to;
};

static void edit_done(struct edit *edit)
{
        entry_text_done(&edit->file);
        free(edit->entry);
        buffer_done(&edit->to);
}

static int own_path(char ret[PATH_MAX], struct error *err)
{
        ssize_t n = readlink("/proc/self/exe", ret, PATH_MAX - 1);

        if (n < 0)
                return error_errno(err, errno, "/proc/self/exe");
        ret[n] = '\0';
        return 0;
}

static int make_entry(struct edit *edit, struct error *err)
{
        _cleanup_buffer_ struct buffer path = BUFFER_INIT(PATH_MAX * 6 + 2);
        char self[PATH_MAX];

        int r = own_path(self, err);
        if (r < 0)
                return r;
        r = json_append_string(&path, self, strlen(self));
        if (r < 0 || asprintf(&edit->entry, "%s%.*s%s", edit->client->before, (int)path.length,
                              buffer_bytes(&path), edit->client->after) < 0) {
                edit->entry = NULL;
                return error_errno(err, ENOMEM, "setup");
        }
        return 0;
}

static const char toml_header[] = "[mcp_servers.cloister]\n";

static int add_toml(struct edit *edit, struct error *err)
{
        int r = edit->file.n > 0 ? buffer_append(&edit->to, edit->file.text, edit->file.n) : 0;

        if (r >= 0 && edit->file.n > 0)
                r = buffer_append_text(&edit->to,
                                       edit->file.text[edit->file.n - 1] == '\n' ? "\n" : "\n\n");
        if (r >= 0)
                r = buffer_append_text(&edit->to, toml_header);
        if (r >= 0)
                r = buffer_append_text(&edit->to, edit->entry);
        return r < 0 ? error_errno(err, -r, "setup") : 0;
}

/* The header of a table: "[mcp_servers.cloister]" or of one in it. */
static bool is_ours(const char *line, size_t n)
{
        static const char ours[] = "[mcp_servers.cloister";

        return n > strlen(ours) && strncmp(line, ours, strlen(ours)) == 0 &&
               strchr(".]", line[strlen(ours)]);
}

/* The tables of the entry, each up to the next header. */
static int remove_toml(struct edit *edit, struct error *err)
{
        bool ours = false;
        int r = 0;

        for (size_t at = 0; at < edit->file.n && r >= 0;) {
                const char *line = edit->file.text + at,
                           *end = memchr(line, '\n', edit->file.n - at);
                size_t n = end ? (size_t)(end - line) + 1 : edit->file.n - at;
                bool before = ours;
                if (line[0] == '[')
                        ours = is_ours(line, n);
                /* The empty line that was put before it. */
                if (ours && !before && edit->to.length > 1 &&
                    memcmp(buffer_bytes(&edit->to) + edit->to.length - 2, "\n\n", 2) == 0)
                        edit->to.length--;
                if (!ours)
                        r = buffer_append(&edit->to, line, n);
                at += n;
        }
        return r < 0 ? error_errno(err, -r, "setup") : 0;
}

/* Checks by tomllib that the new text has this change and no other, as entry-text.c checks JSON. */
static int check_toml(const struct edit *edit, bool removed, struct error *err)
{
        char path[64];
        _cleanup_close_ int fd = memfd_create("setup", MFD_CLOEXEC);
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error ignored = {};

        if (fd < 0)
                return error_errno(err, errno, "memfd_create");
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), fd);
        int r = fd_write_all(fd, buffer_bytes(&edit->to), edit->to.length);
        if (r >= 0)
                r = entry_text_parse_toml(path, &doc, &ignored);
        yyjson_val *old = yyjson_doc_get_root(edit->file.doc), *new = yyjson_doc_get_root(doc);
        if (r >= 0 && !entry_text_only_adds(removed ? old : new, removed ? new : old, toml_servers,
                                            name, NULL))
                r = -EBADMSG;
        return r < 0 ? error_set(err, EBADMSG,
                                 "%s: its layout cannot be edited without a risk: edit it by hand",
                                 edit->path)
                     : 0;
}

static int make_text(struct edit *edit, bool removed, struct error *err)
{
        bool there = entry_text_find(&edit->file, name) != NULL;
        int r;

        if (removed && !there)
                return error_set(err, ENOENT, "%s has no entry \"%s\"", edit->path, name);
        if (!removed && there)
                return error_set(
                        err, EEXIST,
                        "%s has an entry \"%s\" already: 'cloister setup %s --remove' takes it out",
                        edit->path, name, edit->client->word);
        if (edit->file.is_toml) {
                r = removed ? remove_toml(edit, err) : add_toml(edit, err);
                return r < 0 ? r : check_toml(edit, removed, err);
        }
        r = removed ? entry_text_remove(&edit->file, name, &edit->to, err)
                    : entry_text_add(&edit->file, name, edit->entry, &edit->to, err);
        return r < 0 ? error_context(err, "%s", edit->path) : 0;
}

/* ---- the command ---- */

static void show(const struct edit *edit, bool removed)
{
        if (removed)
                printf("%s: the entry \"%s\" is taken out\n", edit->path, name);
        else if (edit->file.is_toml)
                printf("%s gets:\n%s%s", edit->path, toml_header, edit->entry);
        else
                printf("%s gets, in %s:\n\"%s\": %s\n", edit->path, edit->client->keys[0], name,
                       edit->entry);
        fflush(stdout);
}

static int confirm(const struct options *o, struct error *err)
{
        char answer[16] = "";

        if (o->yes)
                return 0;
        if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
                return error_set(
                        err, EPERM,
                        "nothing was written: there is no terminal to ask at (--yes does not ask)");
        fprintf(stderr, "Write it? [y/N] ");
        if (fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
                return 0;
        return error_set(err, ECANCELED, "nothing was written");
}

static int setup(const struct options *o, const char *word, struct error *err)
{
        _cleanup_(edit_done) struct edit edit = {.to = BUFFER_INIT(TEXT_MAX)};
        bool removed = o->remove;

        edit.client = find_client(word, err);
        int r = edit.client ? path_of(edit.client, edit.path, err) : -EINVAL;
        if (r >= 0)
                r = entry_text_check_owner(edit.path, err);
        if (r >= 0) {
                edit.file.keys = edit.client->keys;
                edit.file.is_toml = edit.client->keys == toml_servers;
                r = entry_text_read(&edit.file, edit.path, FILE_MAX, err);
        }
        if (r >= 0)
                r = make_entry(&edit, err);
        if (r >= 0)
                r = make_text(&edit, removed, err);
        if (r < 0)
                return r;
        show(&edit, removed);
        if (o->dry_run)
                return 0;
        r = confirm(o, err);
        if (r >= 0)
                r = entry_text_unchanged(&edit.file, edit.path, err);
        if (r >= 0)
                r = entry_text_write(edit.path, &edit.to, false, err);
        if (r >= 0)
                printf("wrote %s: restart %s to %s\n", edit.path, edit.client->title,
                       removed ? "be without it" : "use it");
        if (r >= 0 && !removed)
                tool_count_print(o);
        return r;
}

/* --replace: in the user's file, or in that of a project. */
static int replace(const struct options *o, const char *word, const char *file, struct error *err)
{
        const struct client *client = find_client(word, err);
        struct replace_place place = {};
        char self[PATH_MAX];

        if (!client)
                return -EINVAL;
        place.word = client->word;
        place.title = client->title;
        place.keys = client->keys;
        place.projects = client->projects;
        place.is_toml = client->keys == toml_servers;
        int r = own_path(self, err);
        if (r >= 0 && !file)
                r = path_of(client, place.path, err);
        else if (r >= 0 && snprintf(place.path, PATH_MAX, "%s", file) >= PATH_MAX)
                r = error_errno(err, ENAMETOOLONG, "%.100s", file);
        return r < 0 ? r : replace_entries(o, &place, self, confirm, err);
}

int cli_setup(const struct options *o, const char *const *words, size_t n)
{
        struct error err = {};

        if (n == 0)
                return cli_fail_text(
                        2, "setup needs the name of a client (see 'cloister setup --help')");
        if (n > 1 && !o->replace)
                return cli_fail_text(2, "setup: a FILE goes with --replace");
        int r = o->replace ? replace(o, words[0], n > 1 ? words[1] : NULL, &err)
                           : setup(o, words[0], &err);
        return r < 0 ? cli_fail(1, &err) : 0;
}
