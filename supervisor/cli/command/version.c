/* The version that `cloister --version` prints. */
#include "supervisor/cli/command/version.h"

#include "cloister-config.h"
#include "supervisor/cli/command/commit.h"

const char *cli_version(void)
{
        if (CLOISTER_COMMIT[0] == '\0')
                return "cloister " CLOISTER_VERSION;
        return "cloister " CLOISTER_VERSION " (" CLOISTER_COMMIT ")";
}
