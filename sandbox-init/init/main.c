/* cloister-init: PID 1 of a sandbox, and the static first half of a template. */
#include <string.h>

#include "sandbox-init/init/init.h"
#include "sandbox-init/setup/template-root.h"

int main(int argc, char **argv)
{
        if (argc == 1 && strcmp(argv[0], "init") == 0)
                return init_main();
        if (argc == 1 && strcmp(argv[0], "cloister-template") == 0)
                return template_root_main();
        return 2;
}
