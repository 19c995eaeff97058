/* The commands that other executables carry out: mcp and tools (monitor, broker), doctor. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "supervisor/cli/attest.h"
#include "supervisor/cli/commands.h"
#include "supervisor/cli/fail.h"
#include "supervisor/cli/monitor-command.h"

int cli_mcp(const struct cli_options *o, const char *const *words, size_t n)
{
        struct monitor_command command;
        struct error error = {};

        char number[16];
        int status = 1;

        _cleanup_close_ int report = o->given & CLI_ATTEST
                                             ? monitor_command_fd(attest_run(o, &status, &error),
                                                                  &error)
                                             : -1;
        if ((o->given & CLI_ATTEST) && report < 0)
                return cli_fail(status, &error);
        if (monitor_command_init(&command, "cloister-monitor", "serve", o, &error) < 0)
                return cli_fail(1, &error);
        monitor_command_pass(&command, report, number);
        monitor_command_add(&command, "--");
        monitor_command_add(&command, "mcp");
        monitor_command_add_option(&command, "--attestation-fd", report >= 0 ? number : NULL);
        monitor_command_add_option(&command, "--profile", o->profile);
        return monitor_command_leave(&command, 1);
}

int cli_tools(const struct cli_options *o, const char *const *words, size_t n)
{
        struct monitor_command command;
        struct error error = {};

        if (monitor_command_init(&command, "cloister-monitor", "serve", o, &error) < 0)
                return cli_fail(1, &error);
        monitor_command_add(&command, "--");
        monitor_command_add(&command, "tools");
        monitor_command_add_option(&command, "--profile", o->profile);
        if (o->given & CLI_JSON)
                monitor_command_add(&command, "--json");
        return monitor_command_leave(&command, 1);
}

int cli_doctor(const struct cli_options *o, const char *const *words, size_t n)
{
        struct monitor_command command;
        struct error error = {};

        uint64_t only = o->given & (CLI_PROFILE | CLI_IMAGE | CLI_PYTHON | CLI_STORE);
        if (only && !(o->given & CLI_ATTACK)) {
                error_set(&error, EINVAL, "%s needs --attack (see 'cloister doctor --help')",
                          cli_option_name(only & -only));
                return cli_fail(2, &error);
        }
        if (monitor_command_init(&command, "cloister-doctor", NULL, o, &error) < 0)
                return cli_fail(1, &error);
        if (o->given & CLI_ATTACK)
                monitor_command_add(&command, "--attack");
        if (o->given & CLI_JSON)
                monitor_command_add(&command, "--json");
        return monitor_command_leave(&command, 1);
}
