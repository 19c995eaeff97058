/* The command line: finds the command and runs it. */
#include "supervisor/cli/cli.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "supervisor/cli/command/help.h"
#include "supervisor/cli/command/version.h"

static int dispatch(const struct cli_commands *commands, const struct options *o)
{
        struct error error = {};
        size_t used = 0;

        if (o->n_words == 0 && o->version) {
                puts(cli_version());
                return 0;
        }
        if (o->n_words == 0 && !o->help) {
                error_set(&error, EINVAL, "which command? (see 'cloister --help')");
                return cli_fail(2, &error);
        }
        if (o->help)
                return help_print(commands, o->words, o->n_words);
        const struct cli_command *command = cli_find_command(commands, o->words, o->n_words, &used,
                                                             &error);
        if (!command || cli_check_command(command, o, o->n_words - used, &error) < 0)
                return cli_fail(2, &error);
        if (o->log_level >= 0)
                log_set_level((enum log_level)o->log_level);
        return command->run(o, o->words + used, o->n_words - used);
}

int cli_main(const struct cli_commands *commands, int argc, char **argv)
{
        struct options options;
        struct error error = {};

        if (cli_options_parse(argc - 1, argv + 1, &options, &error) < 0)
                return cli_fail(2, &error);
        int status = dispatch(commands, &options);
        if (fflush(stdout) != 0 || ferror(stdout)) {
                error_errno(&error, errno, "write to standard output");
                return cli_fail(1, &error);
        }
        return status;
}
