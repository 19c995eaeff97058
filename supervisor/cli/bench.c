/* `cloister bench`: execs bench/run.py. */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/program.h"
#include "supervisor/cli/commands.h"
#include "supervisor/cli/fail.h"

const char cli_help_bench[] =
        "Starts servers of its own and measures how long a session, a call and a tool call take,\n"
        "and how much memory an idle session needs. In the same rounds it measures bubblewrap with\n"
        "python3 and the container runtimes that are installed. It takes a minute or two, on a\n"
        "machine that should do nothing else meanwhile.\n"
        "\n"
        "A ROW is one line of the table. \"own\" selects all rows of Cloister, \"all\" also those of\n"
        "peers that are not installed. \"growth\" selects the curves of latency: sessions, tools,\n"
        "session-heap, template-heap, results and parallel. The row that a selected row is compared\n"
        "with is measured too. A missed budget appears in the table; the exit status is 0 when all\n"
        "rows were measured. Needs a python3 in PATH.\n"
        "\n"
        "Examples:\n"
        "  cloister bench\n"
        "  cloister bench warm fresh --rounds 30\n"
        "  cloister bench sessions --quick\n"
        "  cloister bench --json > bench.json\n";

static const char *const pythons[] = {"python3", "/usr/bin/python3"};

int cli_bench(const struct cli_options *o, const char *const *words, size_t n)
{
        char script[PATH_MAX + 32], self[PATH_MAX];
        const char *arguments[CLI_WORDS_MAX + 12] = {"python3", "-I", script, "--cloister", self};
        size_t count = 5;
        struct error error = {};
        ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

        if (program_path("bench/run.py", script, sizeof(script), &error) < 0)
                return cli_fail(1, &error);
        self[length > 0 ? length : 0] = '\0';
        if (o->given & CLI_JSON)
                arguments[count++] = "--json";
        if (o->given & CLI_QUICK)
                arguments[count++] = "--quick";
        if (o->rounds) {
                arguments[count++] = "--rounds";
                arguments[count++] = o->rounds;
        }
        arguments[count++] = "--";
        assert(n <= CLI_WORDS_MAX);
        for (size_t i = 0; i < n; i++)
                arguments[count++] = words[i];
        if (n == 0)
                arguments[count++] = "here";
        for (size_t i = 0; i < ARRAY_SIZE(pythons); i++)
                execvp(pythons[i], (char *const *)arguments);
        error_errno(&error, errno, "bench needs a python3 in PATH: install one");
        return cli_fail(1, &error);
}
