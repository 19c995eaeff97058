/* The floor of a round trip over two pipes: writes back what it reads. */
#include <unistd.h>

#include "base/fd.h"

int main(void)
{
        static char data[1 << 16];
        ssize_t n;

        while ((n = read(STDIN_FILENO, data, sizeof(data))) > 0)
                if (fd_write_all(STDOUT_FILENO, data, (size_t)n) < 0)
                        return 1;
        return n < 0;
}
