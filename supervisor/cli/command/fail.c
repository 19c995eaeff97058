/* The one line on standard error that a failed command ends with. */
#include "supervisor/cli/command/fail.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/printable.h"

int cli_fail(int status, const struct error *err)
{
        bool red = isatty(STDERR_FILENO) == 1;

        fprintf(stderr, "%scloister:%s ", red ? "\033[31m" : "", red ? "\033[0m" : "");
        /* The text may contain names that others chose: none controls the terminal or forges a line. */
        printable_print(stderr, err->text);
        fputc('\n', stderr);
        return status;
}
