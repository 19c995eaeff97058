/*
 * Reads TOML with Python's tomllib.
 *
 * Debian packages no TOML parser for C, and each machine that runs Cloister has a CPython, from
 * which the images are built. The interpreter gets the file on standard input.
 */
#include "supervisor/cli/config/import-toml.h"

#include <errno.h>

#include "base/cleanup.h"
#include "supervisor/cli/command/python-program.h"

static const char program[] = "import sys, json\n"
                              "try:\n"
                              "    import tomllib\n"
                              "except ImportError:\n"
                              "    sys.exit(121)\n"
                              "try:\n"
                              "    document = tomllib.load(sys.stdin.buffer)\n"
                              "except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:\n"
                              "    sys.stdout.write(str(error))\n"
                              "    sys.exit(122)\n"
                              "json.dump(document, sys.stdout, default=str)\n";

/* python3 may be too old; a newer interpreter has its version in its name. */
static const char *const pythons[] = {
        "python3", "python3.14", "python3.13", "python3.12", "python3.11", "/usr/bin/python3", NULL,
};

int import_toml(const char *path, char **ret, size_t *length, struct error *err)
{
        _cleanup_free_ char *text = NULL;
        int r = python_program_run(pythons, program, path, &text, length, err);

        if (r == 0)
                *ret = take_ptr(text);
        if (r <= 0)
                return r;
        if (r == PYTHON_WRONG)
                return error_set(err, EBADMSG, "%s: %s", path, text);
        return error_set(err, ENOENT,
                         "%s: reading TOML needs a python3 of version 3.11 or later in PATH", path);
}
