/* Prints help, and manual pages in man(7) macros, from the table of commands. */
#include "supervisor/cli/command/help.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cloister-config.h"

/* ---- manual pages ---- */

/* Escapes hyphens, so that copied options contain minus signs. */
static void put(const char *text, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (text[i] == '\\')
                        fputs("\\e", stdout);
                else if (text[i] == '-')
                        fputs("\\-", stdout);
                else
                        putchar(text[i]);
        }
}

static void put_text(const char *text)
{
        put(text, strlen(text));
}

/* The name of a command's page. */
static void put_page(const char *name)
{
        fputs("cloister\\-", stdout);
        for (; *name; name++)
                fputs(*name == ' ' || *name == '-' ? "\\-" : (char[]){*name, '\0'}, stdout);
}

/* A line that begins with a dot or an apostrophe would be a roff request. */
static void put_line(const char *line, size_t n)
{
        if (n > 0 && (*line == '.' || *line == '\''))
                fputs("\\&", stdout);
        put(line, n);
        putchar('\n');
}

static void upper(const char *text)
{
        for (; *text; text++)
                putchar(*text >= 'a' && *text <= 'z' ? *text - 'a' + 'A'
                        : *text == ' '               ? '-'
                                                     : *text);
}

static void title(const char *name)
{
        fputs(".TH CLOISTER", stdout);
        if (name) {
                putchar('-');
                upper(name);
        }
        puts(" 1 \"\" \"Cloister " CLOISTER_VERSION "\" \"Cloister\"");
        puts(".nh\n.ad l");
}

/* Prints paragraphs; indented lines are printed unchanged. */
static void body(const char *text)
{
        bool example = false, gap = false;

        while (*text) {
                size_t n = strcspn(text, "\n");
                bool indented = n > 2 && text[0] == ' ' && text[1] == ' ';

                if (n >= 8 && strncmp(text, "Examples:", 9) == 0) {
                        puts(".SH EXAMPLES");
                        gap = false;
                } else if (n == 0) {
                        if (example)
                                puts(".fi");
                        example = false;
                        gap = true;
                } else {
                        if (gap)
                                puts(".PP");
                        gap = false;
                        if (indented != example)
                                puts(indented ? ".nf" : ".fi");
                        example = indented;
                        put_line(text, n);
                }
                text += n + (text[n] == '\n');
        }
        if (example)
                puts(".fi");
}

static void options(const struct cli_command *command)
{
        puts(".SH OPTIONS");
        for (const struct option *o = NULL; (o = cli_option_next(o, command));) {
                char spelling[OPTION_SPELLING_SIZE];
                cli_option_spell(o, spelling);
                fputs(".TP\n.B ", stdout);
                put_text(spelling);
                putchar('\n');
                put_line(o->text, strlen(o->text));
        }
}

static void see_also(const struct cli_commands *all, const char *but)
{
        puts(".SH SEE ALSO");
        if (but)
                fputs(".BR cloister (1),\n", stdout);
        for (size_t i = 0; i < all->n; i++) {
                const char *name = all->rows[i].name;
                if (!all->rows[i].summary || (but && strcmp(name, but) == 0))
                        continue;
                fputs(".BR ", stdout);
                put_page(name);
                puts(" (1),");
        }
        puts(".BR cloister.json (5)");
}

static void page(const struct cli_commands *all, const struct cli_command *command)
{
        title(command->name);
        puts(".SH NAME");
        put_page(command->name);
        fputs(" \\- ", stdout);
        put_text(command->summary ? command->summary : "internal");
        fputs("\n.SH SYNOPSIS\n.B cloister ", stdout);
        put_text(command->name);
        putchar('\n');
        if (*command->arguments) {
                put_text(command->arguments);
                putchar('\n');
        }
        puts("[OPTIONS]\n.SH DESCRIPTION");
        body(command->help);
        options(command);
        see_also(all, command->name);
}

static const char overview[] =
        ".SH NAME\n"
        "cloister \\- run an AI agent's Python in a sandbox that can call MCP servers\n"
        ".SH SYNOPSIS\n"
        ".B cloister\n"
        "COMMAND [OPTIONS]\n"
        ".SH DESCRIPTION\n"
        "To an agent, Cloister is one MCP server with one tool, run_python. The code runs in a\n"
        "sandbox made straight from the Linux kernel, in a Python that keeps running between calls,\n"
        "and reaches the user's other MCP servers as Python functions. Network, files and keys stay\n"
        "outside.\n"
        ".PP\n"
        "It needs no privilege; where it holds some (root), each session gets its own id.\n"
        ".BR \"cloister doctor\" ,\n"
        "described in\n"
        ".BR cloister\\-doctor (1),\n"
        "tells which layers hold on this machine.\n";

static const char surroundings[] =
        ".SH FILES\n"
        ".TP\n"
        ".I $XDG_CONFIG_HOME/cloister/config.json\n"
        "The config (~/.config/cloister/config.json), see\n"
        ".BR cloister.json (5).\n"
        ".TP\n"
        ".I /etc/cloister/config.json\n"
        "Read where the user has none.\n"
        ".TP\n"
        ".I $XDG_DATA_HOME/cloister/images\n"
        "Images (~/.local/share/cloister/images; root: /var/lib/cloister/images).\n"
        ".TP\n"
        ".I $XDG_STATE_HOME/cloister\n"
        "What MCP servers said of their tools (~/.local/state/cloister; root:\n"
        "/var/lib/cloister/state).\n"
        ".TP\n"
        ".I $XDG_RUNTIME_DIR/cloister/PID.sock\n"
        "Where a running server listens for its owner (root: /run/cloister). If that cannot be used:\n"
        "~/.local/state/cloister/run, and then /tmp/cloister-UID.\n"
        ".SH ENVIRONMENT\n"
        ".TP\n"
        ".B CLOISTER_IMAGE_STORE\n"
        "Where images are, instead of the places above.\n"
        ".TP\n"
        ".B CLOISTER_IMAGE_BUILD_SECONDS\n"
        "After this time an image's build is ended, by default 3600.\n"
        ".TP\n"
        ".B CLOISTER_IMAGE_MAX\n"
        "How large the files of a container image may be, such as 40GiB, by default 16GiB.\n"
        ".TP\n"
        ".BR STATE_DIRECTORY \", \" RUNTIME_DIRECTORY \", \" LOGS_DIRECTORY \", \" CONFIGURATION_DIRECTORY \", \" CREDENTIALS_DIRECTORY\n"
        "The directories of a service, instead of those above:\n"
        ".BR systemd.exec (5).\n"
        ".TP\n"
        ".B NO_COLOR\n"
        "No colour, on a terminal either.\n"
        ".SH EXIT STATUS\n"
        "0 on success, 1 when something failed, 2 when the command line was wrong;\n"
        ".BR cloister\\-run (1)\n"
        "has those of the code.\n";

static void whole(const struct cli_commands *all)
{
        title(NULL);
        fputs(overview, stdout);
        puts(".SH COMMANDS");
        for (size_t i = 0; i < all->n; i++) {
                if (!all->rows[i].summary)
                        continue;
                fputs(".TP\n.B ", stdout);
                put_text(all->rows[i].name);
                putchar('\n');
                put_line(all->rows[i].summary, strlen(all->rows[i].summary));
        }
        fputs(surroundings, stdout);
        see_also(all, NULL);
}

int manual_print(const struct cli_commands *all, const char *const *words, size_t n)
{
        struct error error = {};
        size_t used = 0;

        if (n == 0) {
                whole(all);
                return 0;
        }
        const struct cli_command *command = cli_find_command(all, words, n, &used, &error);
        if (!command)
                return cli_fail(2, &error);
        page(all, command);
        return 0;
}

/* ---- help ---- */

static bool is_command(const struct cli_commands *all, const char *word)
{
        for (size_t i = 0; i < all->n; i++)
                if (strcmp(all->rows[i].name, word) == 0)
                        return true;
        return false;
}

static void heading(const char *text)
{
        bool bold = isatty(STDOUT_FILENO) == 1;

        printf("%s%s%s", bold ? "\033[1m" : "", text, bold ? "\033[0m" : "");
}

static void print_commands(const struct cli_commands *all, const char *prefix)
{
        for (size_t i = 0; i < all->n; i++)
                if (all->rows[i].summary && strncmp(all->rows[i].name, prefix, strlen(prefix)) == 0)
                        printf("  %-15s  %s\n", all->rows[i].name, all->rows[i].summary);
}

static void print_all(const struct cli_commands *all)
{
        heading("Cloister");
        puts(" runs an AI agent's Python in a sandbox and lets it call your MCP servers' tools.\n");
        heading("Usage:");
        puts(" cloister COMMAND [OPTIONS]\n");
        heading("Commands:\n");
        print_commands(all, "");
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

static bool print_group(const struct cli_commands *all, const char *word)
{
        char prefix[64];

        if (!cli_is_group(all, word) || is_command(all, word))
                return false;
        snprintf(prefix, sizeof(prefix), "%.60s ", word);
        heading("Usage:");
        printf(" cloister %s COMMAND [OPTIONS]\n\n", word);
        heading("Commands:\n");
        print_commands(all, prefix);
        printf("\n'cloister help %sCOMMAND' explains a command.\n", prefix);
        return true;
}

static void print_command(const struct cli_commands *all, const struct cli_command *command)
{
        heading("Usage:");
        printf(" cloister %s%s%s [OPTIONS]\n", command->name, *command->arguments ? " " : "",
               command->arguments);
        if (command->summary)
                printf("\n%s.\n", command->summary);
        printf("\n%s\n", command->help);
        if (cli_is_group(all, command->name)) {
                char prefix[64];
                snprintf(prefix, sizeof(prefix), "%.60s ", command->name);
                heading("Commands:\n");
                print_commands(all, prefix);
                puts("");
        }
        heading("Options:\n");
        for (const struct option *o = NULL; (o = cli_option_next(o, command));) {
                char spelling[OPTION_SPELLING_SIZE];
                cli_option_spell(o, spelling);
                printf("  %-18s %s\n", spelling, o->text);
        }
}

int help_print(const struct cli_commands *all, const char *const *words, size_t n)
{
        struct error error = {};
        size_t used = 0;

        if (n == 0) {
                print_all(all);
                return 0;
        }
        if (n == 1 && print_group(all, words[0]))
                return 0;
        const struct cli_command *command = cli_find_command(all, words, n, &used, &error);
        if (!command)
                return cli_fail(2, &error);
        print_command(all, command);
        return 0;
}
