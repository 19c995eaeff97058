/* Reads standard input on request. */
#include "supervisor/cli/run/feeder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/landlock.h"
#include "supervisor/cli/command/process.h"

enum { SOCKET_FD = 3, PIECE_MAX = 64 * 1024 };

enum feeder_input feeder_kind(void)
{
        struct stat st;

        if (fstat(STDIN_FILENO, &st) < 0 || (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3)))
                return FEEDER_NONE;
        return isatty(STDIN_FILENO) == 1 ? FEEDER_TERMINAL : FEEDER_PIPE;
}

/* Waits until there is something to read, so that the end of the socket is seen meanwhile. Returns
 * whether there is. */
static bool wait_for_input(int socket, int input)
{
        struct pollfd p[] = {{.fd = input, .events = POLLIN}, {.fd = socket, .events = POLLRDHUP}};

        for (;;) {
                int n = poll(p, 2, -1);
                if (n < 0 && errno != EINTR)
                        return false;
                if (n > 0 && p[1].revents)
                        return false;
                if (n > 0 && p[0].revents)
                        return true;
        }
}

/* An error counts as the end of the input. */
static ssize_t read_piece(int input, char *to, size_t n)
{
        ssize_t r;

        while ((r = read(input, to, n)) < 0 && (errno == EINTR || errno == EAGAIN))
                if (errno == EAGAIN)
                        poll(&(struct pollfd){.fd = input, .events = POLLIN}, 1, -1);
        return r < 0 ? 0 : r;
}

void feeder_serve(int socket, int input)
{
        static char piece[PIECE_MAX];
        uint32_t n;

        while (fd_read_full(socket, &n, sizeof(n)) == sizeof(n)) {
                if (!wait_for_input(socket, input))
                        return;
                uint32_t length = (uint32_t)read_piece(input, piece, n < PIECE_MAX ? n : PIECE_MAX);
                if (fd_send_all(socket, &length, sizeof(length)) < 0 ||
                    fd_send_all(socket, piece, length) < 0)
                        return;
        }
}

static _Noreturn void run(int socket, const void *data)
{
        int null = open("/dev/null", O_RDWR | O_CLOEXEC),
            fds[] = {STDIN_FILENO, null, null, socket};

        signal(SIGINT, SIG_IGN); /* the code gets it, by the broker */
        prctl(PR_SET_NAME, "cloister-stdin");
        if (fd_arrange(fds, ARRAY_SIZE(fds)) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            capabilities_keep(0) < 0)
                _exit(1);
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        landlock_confine(NULL, 0, false, NULL);
        feeder_serve(SOCKET_FD, STDIN_FILENO);
        _exit(0);
}

int feeder_start(struct error *err)
{
        return process_start_apart(run, NULL, "standard input", err);
}
