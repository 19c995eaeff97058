/* How a cell ended -> exit status. */
#include "supervisor/broker/exit-code.h"

#include <signal.h>
#include <string.h>

#include "base/exit-status.h"

/* The worker raises this error before it runs a line of the script. */
static bool lacks_packages(const struct cell_outcome *o)
{
        const char *type = json_string(o->error, "type", NULL);

        return type && strcmp(type, "cloister.MissingPackages") == 0;
}

int exit_code_of(const struct cell_outcome *o, bool no_sandbox)
{
        switch (o->status) {
        case CELL_OK:
                return 0;
        case CELL_EXIT:
                return o->exit_code;
        case CELL_TIMEOUT:
                return EXIT_TIMEOUT;
        case CELL_CANCELLED:
                return EXIT_CANCELLED;
        case CELL_OOM:
        case CELL_KILLED:
                return 128 + (o->signal ? o->signal : SIGKILL);
        default:
                if (o->error_type)
                        return no_sandbox ? EXIT_NO_SANDBOX : EXIT_CLOISTER;
                return lacks_packages(o) ? EXIT_CLOISTER : 1;
        }
}
