/* The commands that other executables carry out: mcp and tools (monitor, broker), doctor. */
#include "supervisor/cli/serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "supervisor/cli/command/monitor-command.h"
#include "supervisor/cli/serve/attest.h"

int cli_mcp(const struct options *o, const char *const *words, size_t n)
{
        struct monitor_command command;
        struct error error = {};
        int status = 1, report = -1;

        if (o->attest) {
                report = monitor_command_fd(attest_run(o, &status, &error), &error);
                if (report < 0)
                        return cli_fail(status, &error);
        }
        if (monitor_command_init(&command, o, &error) < 0)
                return cli_fail(1, &error);
        command.options.attestation_fd = report;
        return monitor_command_leave(&command, PROGRAM_MONITOR, "mcp", 1);
}

int cli_tools(const struct options *o, const char *const *words, size_t n)
{
        struct monitor_command command;
        struct error error = {};

        if (monitor_command_init(&command, o, &error) < 0)
                return cli_fail(1, &error);
        return monitor_command_leave(&command, PROGRAM_MONITOR, "tools", 1);
}

int cli_doctor(const struct options *o, const char *const *words, size_t n)
{
        struct monitor_command command;
        struct error error = {};

        uint64_t only = o->given & (CLI_PROFILE | CLI_IMAGE | CLI_PYTHON | CLI_STORE);
        if (only && !o->attack) {
                error_set(&error, EINVAL, "%s needs --attack (see 'cloister doctor --help')",
                          cli_option_name(only & -only));
                return cli_fail(2, &error);
        }
        if (monitor_command_init(&command, o, &error) < 0)
                return cli_fail(1, &error);
        return monitor_command_leave(&command, PROGRAM_DOCTOR, NULL, 1);
}
