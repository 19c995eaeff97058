/* cloister-init: PID 1 of a sandbox, the static first half of a template, and the template of JavaScript. */
#include <string.h>

#include "sandbox-init/init/init.h"
#include "sandbox-init/javascript/node-template.h"
#include "sandbox-init/setup/layout.h"
#include "sandbox-init/setup/template-root.h"

int main(int argc, char **argv)
{
        if (argc == 1 && strcmp(argv[0], "init") == 0)
                return init_main();
        if (argc == 1 && strcmp(argv[0], "cloister-template") == 0)
                return template_root_main(node_template_write_modules);
        if (argc == 1 && strcmp(argv[0], LAYOUT_JAVASCRIPT_TEMPLATE) == 0)
                return node_template_main();
        return 2;
}
