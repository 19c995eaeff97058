/* cloister: the command line. */
#include "base/fd.h"
#include "base/places.h"
#include "supervisor/cli/commands.h"

int main(int argc, char **argv)
{
        if (fd_open_standard_streams() < 0)
                return 1;
        places_begin();
        return cli_main(argc, argv);
}
