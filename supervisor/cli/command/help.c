/* Prints help from the table of commands. */
#include "supervisor/cli/command/help.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
        for (const struct option *o = NULL; (o = cli_option_next(o, command->options));) {
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
