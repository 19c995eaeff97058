/* The commands about the journal. Their options are cloister-journal's own (supervisor/journal/commands.c). */
#include "supervisor/cli/serve/journal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/program.h"
#include "supervisor/cli/command/command.h"

static int leave(const char *verb, const struct options *o)
{
        _cleanup_free_ const char **argv = calloc(o->n_rest + 3, sizeof(*argv));
        char path[PATH_MAX + 32];
        struct error error = {};
        size_t n = 0;

        if (!argv)
                return cli_fail_text(1, "out of memory");
        if (program_path("cloister-journal", path, sizeof(path), &error) < 0)
                return cli_fail(1, &error);
        argv[n++] = "cloister-journal";
        argv[n++] = verb;
        for (size_t i = 0; i < o->n_rest; i++)
                argv[n++] = o->rest[i];
        execv(path, (char *const *)argv);
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
