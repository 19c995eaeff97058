/* The commands that cloister-oauth carries out, and their help texts. */
#include "supervisor/cli/login.h"

#include <errno.h>

#include "supervisor/cli/command/monitor-command.h"

static int start(const char *verb, const struct options *o, const char *const *words, size_t n)
{
        struct monitor_command command;
        struct error error = {};

        if (n == 0) {
                error_set(&error, EINVAL, "%s needs the NAME of a server (see 'cloister tools')",
                          verb);
                return cli_fail(2, &error);
        }
        if (monitor_command_init(&command, o, &error) < 0)
                return cli_fail(1, &error);
        command.options.name = words[0];
        monitor_command_exec(&command, PROGRAM_OAUTH, verb, &error);
        monitor_command_done(&command);
        return cli_fail(1, &error);
}

int cli_login(const struct options *o, const char *const *words, size_t n)
{
        return start("login", o, words, n);
}

int cli_logout(const struct options *o, const char *const *words, size_t n)
{
        return start("logout", o, words, n);
}
