/*
 * Embeds the image's CPython.
 *
 * Theory of operation. PyConfig is not in the stable ABI, so CPython is started with a command line:
 * `PYTHON -I -S -c BOOT`. -I ignores the environment and the user's site-packages; with -S, bootstrap
 * imports `site` later, where it can report a failure. BOOT imports the built-in module _cloister,
 * whose boot() runs sandbox-init/python/bootstrap.py. That call serves as the template, and continues
 * as a worker in each fork. CPython exits if it cannot start: the exit handler reports that.
 */
#include "sandbox-init/worker/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "sandbox-init/setup/template.h"
#include "sandbox-init/worker/module.h"

static char isolated[] = "-I", no_site[] = "-S", command[] = "-c";
static char boot[] = "import _cloister; _cloister.boot()";

static int refuse(const struct error *error)
{
        template_failed(error);
        return EXIT_FAILURE;
}

static pid_t template_pid;

static void report_silent_end(void)
{
        struct error error = {0};

        if (getpid() != template_pid || module_has_reported())
                return;
        error_set(&error, ENOEXEC, "CPython exited while it started; its output is in the log");
        template_failed(&error);
}

int worker_main(int argc, char **argv)
{
        struct error error = {0};

        if (argc != 2) {
                error_set(&error, EINVAL, "cloister-worker is started by cloister-monitor only");
                return refuse(&error);
        }
        if (python_api_load(argv[1], &error) < 0)
                return refuse(&error);

        template_pid = getpid();
        if (atexit(report_silent_end) != 0 ||
            py.PyImport_AppendInittab("_cloister", module_init) < 0) {
                error_set(&error, ENOMEM, "start CPython: out of memory");
                return refuse(&error);
        }
        char *arguments[] = {argv[0], isolated, no_site, command, boot, NULL};
        return py.Py_BytesMain(5, arguments);
}
