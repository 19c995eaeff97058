/* The commands that cloister-oauth carries out, and their help texts. */
#include <errno.h>

#include "supervisor/cli/commands.h"
#include "supervisor/cli/fail.h"
#include "supervisor/cli/monitor-command.h"

const char cli_help_login[] =
        "For servers with a url that ask for OAuth. Prints a URL to open in a browser, and waits for the\n"
        "browser's return on 127.0.0.1. The tokens are kept in files that only you can read\n"
        "($XDG_STATE_HOME/cloister/oauth) and are renewed when they expire; code in a sandbox and the\n"
        "process that serves clients never see more than the access token.\n"
        "\n"
        "With --no-browser, or at a terminal, the URL that the browser ends at can be pasted instead: the\n"
        "browser may be on another machine. --scope asks for further permissions; those of earlier logins\n"
        "are asked for again. docs/oauth.md describes the config.\n"
        "\n"
        "Examples:\n"
        "  cloister login calendar\n"
        "  cloister login calendar --scope 'events:read events:write'\n"
        "  cloister login calendar --no-browser\n";

const char cli_help_logout[] =
        "Revokes the tokens where the authorization server offers that, and removes them from this machine.\n"
        "\n"
        "Examples:\n"
        "  cloister logout calendar\n";

static int start(const char *verb, const struct cli_options *o, const char *const *words, size_t n)
{
        struct cli_options options = {.n_configs = o->n_configs};
        struct monitor_command command;
        struct error error = {};

        for (size_t i = 0; i < o->n_configs; i++)
                options.configs[i] = o->configs[i];
        if (n == 0) {
                error_set(&error, EINVAL, "%s needs the NAME of a server (see 'cloister tools')",
                          verb);
                return cli_fail(2, &error);
        }
        if (monitor_command_init(&command, "cloister-oauth", verb, &options, &error) < 0)
                return cli_fail(1, &error);
        monitor_command_add_option(&command, "--name", words[0]);
        monitor_command_add_option(&command, "--scope", o->scope);
        if (o->given & CLI_NO_BROWSER)
                monitor_command_add(&command, "--no-browser");
        monitor_command_exec(&command, &error);
        monitor_command_done(&command);
        return cli_fail(1, &error);
}

int cli_login(const struct cli_options *o, const char *const *words, size_t n)
{
        return start("login", o, words, n);
}

int cli_logout(const struct cli_options *o, const char *const *words, size_t n)
{
        return start("logout", o, words, n);
}
