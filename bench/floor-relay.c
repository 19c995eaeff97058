/*
 * The floor of a call through a process in the middle: passes its input to a command, and the
 * command's output back.
 *
 *     floor-relay COMMAND [ARGUMENT]...
 *
 * It inspects no byte and writes blocking: a request and its response must fit a pipe. It makes a
 * wait, a read and a write in each direction, as any event loop would.
 * The end of standard input closes the command's; the relay ends with the command's output.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "bench/child.h"

/* Returns 0 at end of file. */
static int pass(int from, int to)
{
        static char data[1 << 16];
        ssize_t n = read(from, data, sizeof(data));

        return n > 0 && fd_write_all(to, data, (size_t)n) == 0;
}

int main(int argc, char **argv)
{
        int in, out, status;

        if (argc < 2) {
                fprintf(stderr, "usage: %s COMMAND [ARGUMENT]...\n", argv[0]);
                return 2;
        }
        pid_t pid = child_start(argv + 1, &in, &out);
        if (pid < 0) {
                fprintf(stderr, "floor-relay: %s: %s\n", argv[1], strerror(-pid));
                return 1;
        }
        struct pollfd ends[] = {
                {.fd = STDIN_FILENO, .events = POLLIN},
                {.fd = out, .events = POLLIN},
        };
        while (poll(ends, 2, -1) >= 0) {
                if (ends[0].revents && !pass(STDIN_FILENO, in)) {
                        close(take_fd(in));
                        ends[0].fd = -1;
                }
                if (ends[1].revents && !pass(out, STDOUT_FILENO))
                        break;
        }
        if (in >= 0)
                close(in);
        if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
                return 1;
        return WEXITSTATUS(status);
}
