/* The commands about the journal: cloister-journal runs them (supervisor/journal/commands.c). */
#include "supervisor/cli/serve/journal.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "base/program.h"
#include "supervisor/cli/command/command.h"

static int leave(const char *verb, const struct options *o)
{
        char path[PATH_MAX + 32];
        struct command_line line;
        struct error error = {};

        if (program_path("cloister-journal", path, sizeof(path), &error) < 0)
                return cli_fail(1, &error);
        command_line_init(&line, "cloister-journal", verb, o, PROGRAM_JOURNAL);
        execv(path, (char *const *)line.words);
        error_errno(&error, errno, "start %s", path);
        return cli_fail(1, &error);
}

int cli_journal_show(const struct options *o, const char *const *words, size_t n)
{
        return leave("show", o);
}

int cli_journal_verify(const struct options *o, const char *const *words, size_t n)
{
        return leave("verify", o);
}

int cli_journal_key(const struct options *o, const char *const *words, size_t n)
{
        return leave("key", o);
}
