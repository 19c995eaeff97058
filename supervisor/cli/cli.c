/* The command line: finds the command and runs it. */
#include "supervisor/cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "supervisor/cli/commands.h"
#include "supervisor/cli/fail.h"
#include "supervisor/cli/version.h"

int cli_help_words(const struct cli_options *o, const char *const *words, size_t n)
{
        struct error error = {};
        size_t used = 0;

        if (n == 0) {
                cli_help();
                return 0;
        }
        if (n == 1 && cli_help_group(words[0]))
                return 0;
        const struct cli_command *command = cli_find_command(words, n, &used, &error);
        if (!command)
                return cli_fail(2, &error);
        cli_help_command(command);
        return 0;
}

static int dispatch(const struct cli_options *o)
{
        struct error error = {};
        size_t used = 0;

        if (o->n_words == 0 && (o->given & CLI_VERSION)) {
                puts(cli_version());
                return 0;
        }
        if (o->n_words == 0 && !(o->given & CLI_HELP)) {
                error_set(&error, EINVAL, "which command? (see 'cloister --help')");
                return cli_fail(2, &error);
        }
        if (o->given & CLI_HELP)
                return cli_help_words(o, o->words, o->n_words);
        const struct cli_command *command = cli_find_command(o->words, o->n_words, &used, &error);
        if (!command || cli_check_command(command, o, o->n_words - used, &error) < 0)
                return cli_fail(2, &error);
        if (o->log_level)
                log_set_level((enum log_level)log_level_from_name(o->log_level));
        return command->run(o, o->words + used, o->n_words - used);
}

int cli_main(int argc, char **argv)
{
        struct cli_options options;
        struct error error = {};

        if (cli_options_parse(argc - 1, argv + 1, &options, &error) < 0)
                return cli_fail(2, &error);
        int status = dispatch(&options);
        if (fflush(stdout) != 0 || ferror(stdout)) {
                error_errno(&error, errno, "write to standard output");
                return cli_fail(1, &error);
        }
        return status;
}
