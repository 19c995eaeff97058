/* The commands that start the systems which `cloister mcp --as NAME` replaces. */
#include "supervisor/cli/config/old-command.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/did-you-mean.h"

enum { NAMES_MAX = 4, WORD_SIZE = 512 };

/* From the READMEs and the metadata of the packages, seen in 2026-11. */
static const struct old_system {
        const char *name;
        const char *programs[NAMES_MAX]; /* console scripts, and packages of that name */
        const char *modules[NAMES_MAX];
        const char *script; /* a file of any interpreter; which one it is, must be seen from more */
        const char *folder; /* a part of its path begins so */
        const char *variable; /* or a variable does */
} systems[] = {
        {.name = "codemode-lite",
         .programs = {"codemode-lite"},
         .script = "server.py",
         .folder = "codemode",
         .variable = "CODEMODE_"},
        {.name = "code-sandbox-mcp",
         .programs = {"code-sandbox-mcp"},
         .modules = {"code_sandbox_mcp.server", "code_sandbox_mcp"}},
        {.name = "mcp-python-exec-sandbox",
         .programs = {"mcp-python-exec-sandbox", "mcp-python-sandbox"},
         .modules = {"mcp_python_exec_sandbox", "mcp_python_sandbox"}},
        {.name = "llm-sandbox",
         .programs = {"llm-sandbox", "llm-sandbox-mcp"},
         .modules = {"llm_sandbox.mcp_server.server", "llm_sandbox.mcp_server"}},
};

const struct old_system *old_system_find(const char *name, struct error *err)
{
        const char *names[ARRAY_SIZE(systems) + 1] = {}, *nearest;
        char list[256] = "";

        for (size_t i = 0; i < ARRAY_SIZE(systems); i++) {
                if (strcmp(systems[i].name, name) == 0)
                        return &systems[i];
                names[i] = systems[i].name;
                snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", i ? ", " : "",
                         systems[i].name);
        }
        nearest = did_you_mean(name, names);
        error_set(err, EINVAL, "--replace %s: %s %s", name,
                  nearest ? "did you mean" : "it takes one of", nearest ? nearest : list);
        return NULL;
}

int old_system_print_names(void)
{
        for (size_t i = 0; i < ARRAY_SIZE(systems); i++)
                puts(systems[i].name);
        return 0;
}

struct words {
        const struct old_system *system;
        const char *const *items;
        size_t n;
        const struct old_entry *entry;
};

static const char *file_name(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

static bool is_among(const char *word, size_t length, const char *const *list, size_t n)
{
        for (size_t i = 0; i < n && list[i]; i++)
                if (strlen(list[i]) == length && strncmp(list[i], word, length) == 0)
                        return true;
        return false;
}

/* python, python3, python3.13 */
static bool is_python(const char *word)
{
        const char *name = file_name(word);

        return strncmp(name, "python", 6) == 0 && name[6 + strspn(name + 6, "0123456789.")] == '\0';
}

static bool is_module(const struct words *w, const char *word)
{
        size_t n = strlen(word);
        static const char main_module[] = ".__main__";

        if (n > strlen(main_module) && strcmp(word + n - strlen(main_module), main_module) == 0)
                n -= strlen(main_module);
        return is_among(word, n, w->system->modules, NAMES_MAX);
}

/* A part of a path that begins with `folder`. */
static bool has_part(const char *path, const char *folder)
{
        for (const char *part = path; part; part = strchr(part, '/')) {
                part += *part == '/';
                if (strncmp(part, folder, strlen(folder)) == 0)
                        return true;
        }
        return false;
}

/* server.py is the name of many programs: the folder, an earlier word (uv --directory), a variable or the entry's name tells. */
static bool is_own_script(const struct words *w, size_t at)
{
        const struct old_system *system = w->system;

        if (!system->script || strcmp(file_name(w->items[at]), system->script) != 0)
                return false;
        for (size_t i = 0; i <= at; i++)
                if (has_part(w->items[i], system->folder))
                        return true;
        for (const char *const *v = w->entry->variables; v && *v; v++)
                if (strncmp(*v, system->variable, strlen(system->variable)) == 0)
                        return true;
        return strcmp(w->entry->name, system->name) == 0;
}

/* …/llm_sandbox/mcp_server/server.py */
static bool is_module_file(const struct words *w, const char *path)
{
        char end[WORD_SIZE];

        for (size_t i = 0; i < NAMES_MAX && w->system->modules[i]; i++) {
                int n = snprintf(end, sizeof(end), "/%s.py", w->system->modules[i]);
                for (int k = 0; k < n - 3; k++)
                        if (end[k] == '.')
                                end[k] = '/';
                size_t length = strlen(path);
                if (length >= (size_t)n && strcmp(path + length - (size_t)n, end) == 0)
                        return true;
        }
        return false;
}

static bool is_script(const struct words *w, size_t at)
{
        return is_own_script(w, at) || is_module_file(w, w->items[at]);
}

/* NAME, NAME@1.2, NAME==1.2, NAME[extra], git+https://host/owner/NAME.git@rev */
static bool is_package(const struct words *w, const char *word)
{
        const char *name = strstr(word, "://") ? file_name(word) : word;
        size_t n = strcspn(name, "@=<>!~[ ;#");

        if (name != word && n > 4 && strncmp(name + n - 4, ".git", 4) == 0)
                n -= 4;
        return is_among(name, n, w->system->programs, NAMES_MAX);
}

/* Options with a value, and options without one. After any other one the program's place is not known. */
static const char *const python_values[] = {"-X", "-W"};
static const char *const runner_values[] = {
        "--from",
        "--with",
        "-w",
        "--with-editable",
        "--with-requirements",
        "--python",
        "-p",
        "--directory",
        "--project",
        "--index",
        "--index-url",
        "-i",
        "--default-index",
        "--extra-index-url",
        "--find-links",
        "-f",
        "--env-file",
        "--cache-dir",
        "--config-file",
        "--extra",
        "--group",
        "--package",
        "--link-mode",
        "--resolution",
        "--prerelease",
        "--exclude-newer",
        "--index-strategy",
        "--keyring-provider",
        "--allow-insecure-host",
        "--refresh-package",
        "--upgrade-package",
        "-P",
        "--reinstall-package",
        "--color",
        "--spec",
        "--pip-args",
        "--suffix",
};
static const char *const runner_flags[] = {
        "--isolated",
        "--no-cache",
        "-n",
        "--offline",
        "--quiet",
        "-q",
        "--verbose",
        "-v",
        "--refresh",
        "--upgrade",
        "-U",
        "--native-tls",
        "--no-config",
        "--no-project",
        "--no-sync",
        "--frozen",
        "--locked",
        "--no-dev",
        "--all-extras",
        "--no-progress",
        "--reinstall",
        "--no-env-file",
        "--active",
        "--exact",
        "--no-editable",
        "--managed-python",
        "--no-managed-python",
        "--no-python-downloads",
        "--no-index",
        "--compile-bytecode",
        "--preview",
        "--system-certs",
        "--no-cache-dir",
};

/* Behind the options of uv, uvx or pipx from `at`; SIZE_MAX: one is not known. */
static size_t skip_runner_options(const struct words *w, size_t at)
{
        for (; at < w->n && w->items[at][0] == '-'; at++) {
                const char *word = w->items[at];
                size_t n = strcspn(word, "=");
                if (strcmp(word, "--") == 0)
                        return at + 1;
                if (strcmp(word, "-m") == 0 || strcmp(word, "--module") == 0)
                        return at;
                if (is_among(word, n, runner_values, ARRAY_SIZE(runner_values)))
                        at += word[n] == '\0';
                else if (!is_among(word, strlen(word), runner_flags, ARRAY_SIZE(runner_flags)))
                        return SIZE_MAX;
        }
        return at;
}

/* The program that an interpreter runs, whose options begin at `at`. */
static size_t after_python(const struct words *w, size_t at)
{
        for (; at < w->n && w->items[at][0] == '-'; at++) {
                const char *word = w->items[at];
                if (strcmp(word, "-m") == 0)
                        return at + 1 < w->n && is_module(w, w->items[at + 1]) ? at + 2 : 0;
                if (strncmp(word, "-m", 2) == 0)
                        return is_module(w, word + 2) ? at + 1 : 0;
                if (word[1] == 'c' || word[1] == '-' || word[1] == '\0')
                        return 0;
                at += is_among(word, strlen(word), python_values, ARRAY_SIZE(python_values));
        }
        return at < w->n && is_script(w, at) ? at + 1 : 0;
}

/* The program that a runner starts, whose options begin at `at`. */
static size_t after_runner(const struct words *w, size_t at)
{
        at = skip_runner_options(w, at);
        if (at >= w->n)
                return 0;
        if (w->items[at][0] == '-')
                return at + 1 < w->n && is_module(w, w->items[at + 1]) ? at + 2 : 0;
        if (is_python(w->items[at]))
                return after_python(w, at + 1);
        return is_package(w, w->items[at]) || is_script(w, at) ? at + 1 : 0;
}

/* uv [OPTION]... run …, uv tool run …, pipx run … */
static size_t after_subcommand(const struct words *w)
{
        size_t at = skip_runner_options(w, 1);

        if (at < w->n && strcmp(w->items[at], "tool") == 0)
                at = skip_runner_options(w, at + 1);
        return at < w->n && strcmp(w->items[at], "run") == 0 ? after_runner(w, at + 1) : 0;
}

size_t old_command_length(const struct old_system *system, const char *const *words, size_t n,
                          const struct old_entry *entry)
{
        const struct words w = {system, words, n, entry};
        const char *program = n > 0 ? file_name(words[0]) : "";

        if (n > 0 && is_python(words[0]))
                return after_python(&w, 1);
        if (strcmp(program, "uvx") == 0)
                return after_runner(&w, 1);
        if (strcmp(program, "uv") == 0 || strcmp(program, "pipx") == 0)
                return after_subcommand(&w);
        return is_among(program, strlen(program), system->programs, NAMES_MAX);
}

bool old_command_names(const struct old_system *system, const char *const *words, size_t n,
                       const struct old_entry *entry)
{
        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < NAMES_MAX; k++)
                        if ((system->programs[k] && strstr(words[i], system->programs[k])) ||
                            (system->modules[k] && strstr(words[i], system->modules[k])))
                                return true;
        return strstr(entry->name, system->name) != NULL;
}
