/* cloister-broker: started by cloister-monitor, not by people. */
#include "base/fd.h"
#include "supervisor/broker/broker.h"

int main(int argc, char **argv)
{
        if (fd_open_standard_streams() < 0)
                return 1;
        return broker_main(argc, argv);
}
