/* `cloister bench`: execs bench/run.py. */
#include "supervisor/cli/bench.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/program.h"

static const char *const pythons[] = {"python3", "/usr/bin/python3"};

int cli_bench(const struct options *o, const char *const *words, size_t n)
{
        char script[PATH_MAX + 32], self[PATH_MAX];
        const char *arguments[OPTION_WORDS_MAX + 12] = {"python3", "-I", script, "--cloister",
                                                        self};
        size_t count = 5;
        struct error error = {};
        ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

        if (program_path("bench/run.py", script, sizeof(script), &error) < 0)
                return cli_fail(1, &error);
        self[length > 0 ? length : 0] = '\0';
        if (o->json)
                arguments[count++] = "--json";
        if (o->quick)
                arguments[count++] = "--quick";
        if (o->rounds) {
                arguments[count++] = "--rounds";
                arguments[count++] = o->rounds;
        }
        arguments[count++] = "--";
        assert(n <= OPTION_WORDS_MAX);
        for (size_t i = 0; i < n; i++)
                arguments[count++] = words[i];
        if (n == 0)
                arguments[count++] = "here";
        for (size_t i = 0; i < ARRAY_SIZE(pythons); i++)
                execvp(pythons[i], (char *const *)arguments);
        error_errno(&error, errno, "bench needs a python3 in PATH: install one");
        return cli_fail(1, &error);
}
