/* cloister: the command line, and the broker that cloister-monitor starts from the same file. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/broker/broker.h"
#include "supervisor/cli/cli.h"

/* A descriptor opened later must not become 0, 1 or 2 by chance. */
static int open_standard_streams(void)
{
        int fd;

        do
                fd = open("/dev/null", O_RDWR);
        while (fd >= 0 && fd <= STDERR_FILENO);
        if (fd > STDERR_FILENO)
                close(fd);
        return fd;
}

int main(int argc, char **argv)
{
        if (open_standard_streams() < 0)
                return 1;
        if (argc > 1 && strcmp(argv[1], "broker") == 0)
                return broker_main(argc - 1, argv + 1);
        return cli_main(argc, argv);
}
