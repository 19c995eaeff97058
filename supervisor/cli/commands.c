/* The table of the commands of `cloister`, with their help texts. */
#include "supervisor/cli/commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "policy/did-you-mean.h"
#include "supervisor/cli/listen.h"

enum {
        COMMON = CLI_LOG_LEVEL | CLI_VERBOSE | CLI_LOG_FILE | CLI_LOG_FORMAT,
        PACKAGES = CLI_WITH | CLI_REQUIREMENTS | CLI_INSTALLER | CLI_FIND_LINKS | CLI_OFFLINE |
                   CLI_UPGRADE,
        SERVING = COMMON | CLI_CONFIG | CLI_IMAGE | CLI_PYTHON | CLI_STORE | CLI_PROFILE,
};

const struct cli_command cli_commands[] = {
        {
                .name = "run",
                .arguments = "{FILE | -c CODE | -} [ARGUMENT]...",
                .summary = "run Python in a sandbox that can call your MCP servers' tools",
                .options = SERVING | CLI_CODE | CLI_TIMEOUT | PACKAGES | CLI_IN | CLI_OUT |
                           CLI_OUT_HIDDEN | CLI_ENV | CLI_MOUNT | CLI_JSON | CLI_PROMPT,
                .words_max = 1,
                .run = cli_run,
                .help = "Runs a file, a line of code or standard input (-) in a new sandbox: no network, none\n"
                        "of your files, limited memory, processes and time. What follows the file is the\n"
                        "script's own, sys.argv. Output appears as it is printed, what is piped in is\n"
                        "sys.stdin; Ctrl-C stops the code. The exit status is that of the code: 0, the argument of\n"
                        "sys.exit(), or 1 after an exception. It is 2 for wrong arguments, 124 after a\n"
                        "timeout, 125 when Cloister itself failed (its config, its image, files that it could not\n"
                        "copy), 126 if no sandbox can be created on this machine ('cloister doctor'\n"
                        "says why), 130 after Ctrl-C, 137 when the code ran out of memory.\n"
                        "\n"
                        "-i begins a prompt, after the script if there is one ('cloister exec --help').\n"
                        "\n"
                        "The script is in /workspace, with the *.py files beside it that it names. --in FILE\n"
                        "copies a file or directory there, under its own name or as NAME. Files that the\n"
                        "code writes to /workspace/out, and images that it displays, are written to --out\n"
                        "DIRECTORY, which is created if needed; files of the same name are replaced. Names\n"
                        "that begin with a dot are refused, because programs read such files as settings\n"
                        "(.git/config): --out-hidden writes them too.\n"
                        "\n"
                        "The tools of the MCP servers in your config are coroutines in the code, which can\n"
                        "use await at its top level.\n"
                        "\n"
                        "Examples:\n"
                        "  cloister run -c 'print(sum(range(10)))'\n"
                        "  cloister run --timeout 30 report.py --month 7\n"
                        "  cloister run --with pandas,numpy report.py\n"
                        "  cloister run --in sales.csv --out plots plot.py\n"
                        "  cat log | cloister run --env LEVEL=warn -c 'import sys; print(len(sys.stdin.read()))'\n"
                        "  cloister run --mount ~/data:/data --json count.py\n"
                        "  echo 'print(_discover())' | cloister run -\n"
                        "  cloister run -c 'print(await tools[\"list-events\"](calendarId=\"primary\"))'\n",
        },
        {
                .name = "mcp",
                .arguments = "",
                .summary =
                        "serve the tool run_python to an MCP client, over standard input and output",
                .options = SERVING | CLI_ATTEST,
                .run = cli_mcp,
                .help = "An MCP client starts this command. It ends at the end of standard input. It speaks the\n"
                        "MCP versions 2024-11-05 to 2025-11-25 and 2026-07-28 (docs/mcp.md). The exit status is\n"
                        "126 if no sandbox can be created on this machine ('cloister doctor' says why).\n"
                        "\n"
                        "With --attest, it first runs 'cloister doctor --attack' with the same options, which takes\n"
                        "a second or two. If anything is open, it ends with status 1 and one line. Else clients\n"
                        "can read the report as the resource cloister://attestation.\n"
                        "\n"
                        "Examples:\n"
                        "  claude mcp add cloister -- cloister mcp\n"
                        "  {\"mcpServers\": {\"cloister\": {\"command\": \"cloister\", \"args\": [\"mcp\"]}}}\n",
        },
        {
                .name = "serve",
                .arguments = "",
                .summary = "serve the tool run_python to MCP clients over HTTP",
                .options = SERVING | CLI_LISTEN | CLI_TOKENS | CLI_HOST | CLI_ORIGIN | CLI_ATTEST,
                .run = cli_serve,
                .help = "Streamable HTTP at /mcp, for the MCP versions 2025-03-26 to 2025-11-25 (with sessions) and\n"
                        "2026-07-28, and the older transport at /sse. --listen may be given four times; without it,\n"
                        "sockets that systemd passes are used, else " LISTEN_DEFAULT ".\n"
                        "\n"
                        "Without --tokens, everybody who can open the socket can call your tools: on 127.0.0.1 that\n"
                        "is every user of this machine. unix:PATH is for you alone (mode 0600), and if you open it to\n"
                        "others, each user has sessions of its own. Any other address needs --tokens. Each line of\n"
                        "that file, which only you may read, is NAME TOKEN [profile=NAME] [calls=N] [sessions=N]:\n"
                        "clients with different names share neither sessions nor files. It is read again when it\n"
                        "changes. --attest is as for 'cloister mcp'.\n"
                        "\n"
                        "Requests of web pages are refused unless their origin, and the host that they ask for, are\n"
                        "those of this machine or allowed. TLS is a reverse proxy's: docs/http.md.\n"
                        "\n"
                        "Examples:\n"
                        "  cloister serve\n"
                        "  cloister serve --listen unix:$XDG_RUNTIME_DIR/cloister.sock\n"
                        "  cloister serve --listen 0.0.0.0:8808 --tokens ~/.config/cloister/tokens --allow-host box.lan\n",
        },
        {
                .name = "setup",
                .arguments = "CLIENT",
                .summary = "write the entry for Cloister into the config of an MCP client",
                .options = CLI_DRY_RUN | CLI_REMOVE | CLI_YES,
                .words_max = 1,
                .run = cli_setup,
                .help = cli_help_setup,
        },
        {
                .name = "publish",
                .arguments = "FILE",
                .summary = "offer a Python script as an MCP tool",
                .options = CLI_CONFIG | CLI_DRY_RUN | CLI_NAME | CLI_PROFILE,
                .words_max = 1,
                .run = cli_publish,
                .help = cli_help_publish,
        },
        {
                .name = "tools",
                .arguments = "",
                .summary = "start your MCP servers and list their tools, as code can call them",
                .options = SERVING | CLI_JSON,
                .run = cli_tools,
                .help = "Prints each tool with its Python signature, and the reason for each server that could\n"
                        "not be started. In that case the exit status is 1.\n"
                        "\n"
                        "Examples:\n"
                        "  cloister tools\n"
                        "  cloister tools --json --config ./servers.json\n",
        },
        {
                .name = "login",
                .arguments = "NAME",
                .summary = "log in to an MCP server that asks for OAuth",
                .options = CLI_CONFIG | CLI_NO_BROWSER | CLI_SCOPE,
                .words_max = 1,
                .run = cli_login,
                .help = cli_help_login,
        },
        {
                .name = "logout",
                .arguments = "NAME",
                .summary = "end the login to an MCP server",
                .options = CLI_CONFIG,
                .words_max = 1,
                .run = cli_logout,
                .help = cli_help_logout,
        },
        {
                .name = "cp",
                .arguments = "SESSION:PATH LOCAL | LOCAL SESSION:PATH",
                .summary = "copy files to or from a live session of a running server",
                .options = CLI_RECURSIVE | CLI_OUT_HIDDEN | CLI_QUIET | CLI_SERVER,
                .words_max = 2,
                .run = cli_cp,
                .help = cli_help_cp,
        },
        {
                .name = "exec",
                .arguments = "SESSION [FILE | -c CODE | -]",
                .summary = "run Python in a live session of a running server",
                .options = CLI_CODE | CLI_TIMEOUT | CLI_WAIT | CLI_JSON | CLI_OUT | CLI_SERVER |
                           CLI_PROMPT,
                .words_max = 2,
                .run = cli_exec,
                .help = cli_help_exec,
        },
        {
                .name = "sessions end",
                .arguments = "NAME",
                .summary = "end a session of a running server",
                .options = CLI_SERVER,
                .words_max = 1,
                .run = cli_sessions_end,
                .help = "Its variables and files are lost; a call that runs in it ends as killed. The next call\n"
                        "with its name gets a new sandbox and a notice. --server is needed if two servers have\n"
                        "a session of this name.\n"
                        "\n"
                        "Examples:\n"
                        "  cloister sessions end default\n"
                        "  cloister sessions end work --server 4711\n",
        },
        {
                .name = "sessions reset",
                .arguments = "NAME",
                .summary = "end a session and replace it by a new, empty one",
                .options = CLI_SERVER,
                .words_max = 1,
                .run = cli_sessions_reset,
                .help = "Like 'cloister sessions end', but the new sandbox is created immediately.\n"
                        "\n"
                        "Examples:\n"
                        "  cloister sessions reset default\n",
        },
        {
                .name = "sessions undo",
                .arguments = "NAME [CHECKPOINT]",
                .summary = "take a session's variables back to an earlier state",
                .options = CLI_SERVER,
                .words_max = 2,
                .run = cli_sessions_undo,
                .help = "While a call runs, the call ends as cancelled and the variables are as they were before it.\n"
                        "Else they are as at the newest checkpoint. With CHECKPOINT: as at that one; 'cloister\n"
                        "sessions' lists them. Files and what tools have done are not taken back. The session's\n"
                        "next result says what has happened.\n"
                        "\n"
                        "Examples:\n"
                        "  cloister sessions undo default\n"
                        "  cloister sessions undo default loaded\n",
        },
        {
                .name = "sessions",
                .arguments = "",
                .summary = "list the live sessions of your running servers",
                .options = CLI_JSON | CLI_SERVER | CLI_WATCH,
                .run = cli_sessions,
                .help = cli_help_sessions,
        },
        {
                .name = "config path",
                .arguments = "",
                .summary = "print which config files are read, and why",
                .options = CLI_CONFIG | CLI_JSON,
                .run = cli_config_path,
                .help = "Examples:\n"
                        "  cloister config path\n"
                        "  cloister config path --config ./mcp.d --json\n",
        },
        {
                .name = "config check",
                .arguments = "",
                .summary = "report all problems of the config, with file and line",
                .options = CLI_CONFIG | CLI_JSON | CLI_STRICT | CLI_STORE,
                .run = cli_config_check,
                .help = "Starts no server. What the config names and this machine lacks is a warning: programs,\n"
                        "interpreters, images, directories, users. The exit status is 1 if there is an error;\n"
                        "warnings count with --strict.\n"
                        "\n"
                        "Examples:\n"
                        "  cloister config check\n"
                        "  cloister config check --config ./mcp.json --json\n"
                        "  cloister config check --strict\n",
        },
        {
                .name = "config show",
                .arguments = "",
                .summary = "print the config as Cloister understands it, with secrets masked",
                .options = CLI_CONFIG | CLI_JSON,
                .run = cli_config_show,
                .help = "Prints one config made of all files; each profile includes what it takes from the top\n"
                        "level. Values of variables are shown only if they are ${VAR}. With --json, each server\n"
                        "has its file and line, and its problem.\n"
                        "\n"
                        "Examples:\n"
                        "  cloister config show\n"
                        "  cloister config show --json | jq .profiles\n",
        },
        {
                .name = "config import",
                .arguments = "[CLIENT | FILE]...",
                .summary = "copy MCP servers from the configs of your other clients",
                .options = CLI_CONFIG | CLI_JSON | CLI_DRY_RUN | CLI_SECRETS,
                .words_max = CLI_WORDS_MAX,
                .run = cli_config_import,
                .help = "Reads the config files of claude-code, claude-desktop, cursor, vscode, codex, gemini,\n"
                        "qwen, opencode and mcps (~/MCPs/*.json), or the named ones, and adds their servers to\n"
                        "your config. The existing text of the config stays unchanged, comments included. Prints\n"
                        "which servers were added, and which were left out and why.\n"
                        "\n"
                        "A value that looks like a secret is not copied: ${NAME} replaces it, and a line says\n"
                        "which variable to set. With --secrets copy, or if you agree when asked, it is copied,\n"
                        "and only you can read the file.\n"
                        "\n"
                        "Examples:\n"
                        "  cloister config import --dry-run\n"
                        "  cloister config import claude-code cursor\n"
                        "  cloister config import ./team/mcp.json --config ~/mcp.json\n",
        },
        {
                .name = "image build",
                .arguments = "",
                .summary = "build a sandbox image from a Python of this machine, with packages",
                .options = COMMON | CLI_CONFIG | CLI_PYTHON | CLI_NAME | CLI_STORE | CLI_QUIET |
                           CLI_LINK | CLI_ROOTFS | PACKAGES,
                .run = cli_image_build,
                .help = cli_help_image_build,
        },
        {
                .name = "image list",
                .arguments = "",
                .summary = "list the images",
                .options = COMMON | CLI_JSON | CLI_STORE,
                .run = cli_image_list,
                .help = cli_help_image_list,
        },
        {
                .name = "image show",
                .arguments = "NAME",
                .summary = "show the source of an image, and its packages with their hashes",
                .options = COMMON | CLI_JSON | CLI_STORE,
                .words_max = 1,
                .run = cli_image_show,
                .help = cli_help_image_show,
        },
        {
                .name = "image path",
                .arguments = "[NAME]",
                .summary = "print the directory of the image store, or of one image",
                .options = COMMON | CLI_STORE,
                .words_max = 1,
                .run = cli_image_path,
                .help = cli_help_image_path,
        },
        {
                .name = "image remove",
                .arguments = "NAME...",
                .summary = "remove images that are not in use",
                .options = COMMON | CLI_STORE,
                .words_max = CLI_WORDS_MAX,
                .run = cli_image_remove,
                .help = cli_help_image_remove,
        },
        {
                .name = "image prune",
                .arguments = "",
                .summary = "remove outdated images and unused wheels",
                .options = COMMON | CLI_STORE | CLI_QUIET,
                .run = cli_image_prune,
                .help = cli_help_image_prune,
        },
        {
                .name = "doctor",
                .arguments = "",
                .summary =
                        "show each layer of the sandbox on this machine, and how to fix what is missing",
                .options = SERVING | CLI_JSON | CLI_ATTACK,
                .run = cli_doctor,
                .help = "Tries each layer, and reports it as effective, degraded or missing, with the fix. Last,\n"
                        "it runs 1+1 in a real sandbox, as 'cloister run' does, which takes at most a minute.\n"
                        "The exit status is that of 'cloister run': 0, 126 if no sandbox can be created on\n"
                        "this machine, 125 if the config or the image is at fault.\n"
                        "\n"
                        "With --attack, code in a sandbox of the profile tries what it must not be able to do:\n"
                        "system calls, files, namespaces, descriptors, limits and more. The kernel is then asked\n"
                        "about each process of the sandbox. Each row has the class of the attack\n"
                        "(docs/isolation.md), what is expected and what was found: held, open or untried (the\n"
                        "image or the kernel does not allow the attempt). The exit status is 1 if a row is open.\n"
                        "\n"
                        "Examples:\n"
                        "  cloister doctor\n"
                        "  cloister doctor --json\n"
                        "  cloister doctor --attack --profile analysis\n",
        },
        {
                .name = "bench",
                .arguments = "[ROW]...",
                .summary = "measure Cloister on this machine, beside other ways to run Python",
                .options = CLI_JSON | CLI_ROUNDS | CLI_QUICK,
                .words_max = CLI_WORDS_MAX,
                .run = cli_bench,
                .help = cli_help_bench,
        },
        {
                .name = "help",
                .arguments = "[COMMAND]",
                .summary = "explain a command",
                .words_max = 2,
                .run = cli_help_words,
                .help = "Examples:\n"
                        "  cloister help run\n"
                        "  cloister help image build\n",
        },
        {
                .name = "completion",
                .arguments = "bash | zsh | fish",
                .summary = "print the completion script of a shell",
                .words_max = 1,
                .run = cli_completion,
                .help = "'meson install' installs these scripts. From a build tree:\n"
                        "\n"
                        "Examples:\n"
                        "  source <(cloister completion bash)\n"
                        "  cloister completion zsh > ~/.zfunc/_cloister\n"
                        "  cloister completion fish > ~/.config/fish/completions/cloister.fish\n",
        },
        /* Called by the build, and by completion scripts. */
        {
                .name = "manual",
                .arguments = "[COMMAND]",
                .words_max = 2,
                .run = cli_manual,
                .help = "Prints a manual page. 'man cloister' shows the installed ones.\n",
        },
        {
                .name = "names",
                .arguments = "images | sessions",
                .words_max = 1,
                .run = cli_names,
                .help = "Prints names, one a line, for completion.\n",
        },
        /* Started by cloister-monitor, as the user that images belong to. */
        {
                .name = "image-builder",
                .arguments = "--store DIRECTORY --python PATH",
                .options = COMMON | CLI_STORE | CLI_PYTHON | CLI_NAME | CLI_QUIET | CLI_LINK |
                           CLI_ROOTFS | CLI_FILES_KEY | PACKAGES,
                .run = cli_image_builder,
                .help = "Builds one image. 'cloister image build' is the command for users.\n",
        },
        {
                .name = "package-installer",
                .arguments = "--store DIRECTORY --python PATH",
                .options = COMMON | CLI_STORE | CLI_PYTHON,
                .run = cli_package_installer,
                .help = "Installs packages for a session of the server that starts it.\n",
        },
};
const size_t cli_n_commands = ARRAY_SIZE(cli_commands);

/* Returns how many of the words are the command's name: 0, 1 or 2. */
static size_t matches(const struct cli_command *command, const char *const *words, size_t n)
{
        const char *space = strchr(command->name, ' ');

        if (!space)
                return n > 0 && strcmp(words[0], command->name) == 0;
        size_t first = (size_t)(space - command->name);
        return n > 1 && strlen(words[0]) == first && strncmp(words[0], command->name, first) == 0 &&
                               strcmp(words[1], space + 1) == 0
                       ? 2
                       : 0;
}

static bool is_group(const char *word)
{
        size_t n = strlen(word);

        for (size_t i = 0; i < cli_n_commands; i++)
                if (strncmp(cli_commands[i].name, word, n) == 0 && cli_commands[i].name[n] == ' ')
                        return true;
        return false;
}

static bool is_command(const char *word)
{
        for (size_t i = 0; i < cli_n_commands; i++)
                if (strcmp(cli_commands[i].name, word) == 0)
                        return true;
        return false;
}

static int not_found_in_group(const char *const *words, size_t n, struct error *err)
{
        const char *names[ARRAY_SIZE(cli_commands) + 1] = {};
        size_t length = strlen(words[0]);

        for (size_t i = 0, k = 0; i < cli_n_commands; i++)
                if (strncmp(cli_commands[i].name, words[0], length) == 0 &&
                    cli_commands[i].name[length] == ' ')
                        names[k++] = cli_commands[i].name + length + 1;
        if (n < 2)
                return error_set(err, EINVAL, "%s needs a command (see 'cloister %s --help')",
                                 words[0], words[0]);
        const char *nearest = did_you_mean(words[1], names);
        if (nearest)
                return error_set(err, EINVAL, "unknown command '%s %s': did you mean '%s %s'?",
                                 words[0], words[1], words[0], nearest);
        return error_set(err, EINVAL, "unknown command '%s %s' (see 'cloister %s --help')",
                         words[0], words[1], words[0]);
}

static int not_found(const char *const *words, size_t n, struct error *err)
{
        const char *names[ARRAY_SIZE(cli_commands) + 3] = {"image", "config"};

        if (is_group(words[0]))
                return not_found_in_group(words, n, err);
        if (access(words[0], R_OK) == 0 && strchr(words[0], '.'))
                return error_set(err, EINVAL,
                                 "'%s' is not a command: to run the file, use 'cloister run %s'",
                                 words[0], words[0]);
        for (size_t i = 0, k = 2; i < cli_n_commands; i++)
                if (cli_commands[i].summary)
                        names[k++] = cli_commands[i].name;
        const char *nearest = did_you_mean(words[0], names);
        if (nearest)
                return error_set(err, EINVAL, "unknown command '%s': did you mean '%s'?", words[0],
                                 nearest);
        return error_set(err, EINVAL, "unknown command '%s' (see 'cloister --help')", words[0]);
}

const struct cli_command *cli_find_command(const char *const *words, size_t n, size_t *used,
                                           struct error *err)
{
        for (size_t i = 0; i < cli_n_commands; i++) {
                *used = matches(&cli_commands[i], words, n);
                if (*used > 0)
                        return &cli_commands[i];
        }
        not_found(words, n, err);
        return NULL;
}

int cli_check_command(const struct cli_command *command, const struct cli_options *options,
                      size_t n_words, struct error *err)
{
        uint64_t foreign = options->given & ~(command->options | CLI_HELP);

        if (foreign)
                return error_set(err, EINVAL,
                                 "%s is not an option of '%s' (see 'cloister %s --help')",
                                 cli_option_name(foreign & -foreign), command->name, command->name);
        if (n_words > command->words_max)
                return error_set(
                        err, E2BIG, "'%s' takes %s (see 'cloister %s --help')", command->name,
                        *command->arguments ? command->arguments : "no arguments", command->name);
        return 0;
}

static void heading(const char *text)
{
        bool bold = isatty(STDOUT_FILENO) == 1;

        printf("%s%s%s", bold ? "\033[1m" : "", text, bold ? "\033[0m" : "");
}

static void print_commands(const char *prefix)
{
        for (size_t i = 0; i < cli_n_commands; i++)
                if (cli_commands[i].summary &&
                    strncmp(cli_commands[i].name, prefix, strlen(prefix)) == 0)
                        printf("  %-15s  %s\n", cli_commands[i].name, cli_commands[i].summary);
}

void cli_help(void)
{
        heading("Cloister");
        puts(" runs an AI agent's Python in a sandbox and lets it call your MCP servers' tools.\n");
        heading("Usage:");
        puts(" cloister COMMAND [OPTIONS]\n");
        heading("Commands:\n");
        print_commands("");
        puts("");
        heading("Config:");
        puts(" --config FILE, else $XDG_CONFIG_HOME/cloister/config.json (~/.config/…), else\n"
             "/etc/cloister/config.json; its mcpServers has the format of other MCP clients.\n");
        heading("Start here:\n");
        puts("  cloister doctor\n"
             "  cloister run -c 'print(1 + 1)'\n"
             "  claude mcp add cloister -- cloister mcp\n"
             "\n"
             "'cloister help COMMAND' explains a command.");
}

bool cli_help_group(const char *word)
{
        char prefix[64];

        if (!is_group(word) || is_command(word))
                return false;
        snprintf(prefix, sizeof(prefix), "%.60s ", word);
        heading("Usage:");
        printf(" cloister %s COMMAND [OPTIONS]\n\n", word);
        heading("Commands:\n");
        print_commands(prefix);
        printf("\n'cloister help %sCOMMAND' explains a command.\n", prefix);
        return true;
}

void cli_help_command(const struct cli_command *command)
{
        heading("Usage:");
        printf(" cloister %s%s%s [OPTIONS]\n", command->name, *command->arguments ? " " : "",
               command->arguments);
        if (command->summary)
                printf("\n%s.\n", command->summary);
        printf("\n%s\n", command->help);
        if (is_group(command->name)) {
                char prefix[64];
                snprintf(prefix, sizeof(prefix), "%.60s ", command->name);
                heading("Commands:\n");
                print_commands(prefix);
                puts("");
        }
        heading("Options:\n");
        for (size_t i = 0; i < cli_n_option_texts; i++)
                if ((command->options | CLI_HELP) & cli_option_texts[i].option)
                        printf("  %-18s %s\n", cli_option_texts[i].spelling,
                               cli_option_texts[i].text);
}
