/* cloister-broker: started by cloister-monitor, not by people. */
#include "base/fd.h"
#include "supervisor/broker/modes/mode-run.h"
#include "supervisor/broker/modes/mode-server.h"
#include "supervisor/broker/modes/mode-tools.h"

int main(int argc, char **argv)
{
        static const struct broker_mode *const modes[MODE_MAX] = {
                [MODE_MCP] = &broker_mode_mcp,
                [MODE_RUN] = &broker_mode_run,
                [MODE_TOOLS] = &broker_mode_tools,
                [MODE_SERVE] = &broker_mode_serve,
        };

        if (fd_open_standard_streams() < 0)
                return 1;
        return broker_main(modes, argc, argv);
}
