/* The way to a first result, gone by a template that no session is asked of. */
#include "sandbox-init/worker/warm-up.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "rpc/frame.h"
#include "rpc/sandbox-messages.h"
#include "sandbox-init/setup/pages.h"
#include "sandbox-init/worker/channel.h"
#include "sandbox-init/worker/python-api.h"

enum { CHANNEL_FD = 200, RESULT_MS = 1000 };

static int send_cell(int channel, const char *cell, size_t n)
{
        struct frame_header header = {.length = (uint32_t)n, .type = FRAME_EXEC, .id = 1};
        uint8_t frame[FRAME_HEADER_SIZE + WARM_UP_CELL_MOST];

        if (n > WARM_UP_CELL_MOST)
                return -EMSGSIZE;
        frame_header_encode(&header, frame);
        memcpy(frame + FRAME_HEADER_SIZE, cell, n);
        return fd_write_all(channel, frame, FRAME_HEADER_SIZE + n);
}

PyObject *warm_up_practise(PyObject *args)
{
        PyObject *bytes, *turn;
        char *cell;
        Py_ssize_t n;
        int pair[2];

        if (!py.PyArg_ParseTuple(args, "OO", &bytes, &turn) ||
            py.PyBytes_AsStringAndSize(bytes, &cell, &n) < 0)
                return NULL;
        if (syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return py.PyErr_Format(*py.PyExc_RuntimeError, "socketpair: errno %d", errno);
        int r = send_cell(pair[0], cell, (size_t)n);
        /* A turn that loses the cell finds the end of its channel: a template that has ended is
         * made anew, one that waits for ever would hold up each session. */
        if (r == 0 && syscall(SYS_shutdown, pair[0], SHUT_WR) < 0)
                r = -errno;
        if (r < 0) {
                fd_close_many(pair, 2);
                return py.PyErr_Format(*py.PyExc_RuntimeError, "send a cell: errno %d", -r);
        }
        channel_open(pair[1], -1);
        PyObject *result = py.PyObject_CallObject(turn, NULL);
        channel_forget();
        fd_close_many(pair, 1);
        return result;
}

/* What else the template has open must not outlive it here. */
static void become_worker(int channel, struct template_session *ret)
{
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        ret->release_fd = -1;
        ret->rpc_fd = fcntl(channel, F_DUPFD_CLOEXEC, CHANNEL_FD);
        if (ret->rpc_fd < 0 || syscall(SYS_close_range, 3, ret->rpc_fd - 1, 0) < 0 ||
            syscall(SYS_close_range, ret->rpc_fd + 1, ~0U, 0) < 0)
                _exit(1);
}

/* Returns 1 when its result has come, -EAGAIN when somebody asks for a session first. */
static int await_result(int channel)
{
        struct pollfd fds[] = {
                {.fd = channel, .events = POLLIN},
                {.fd = TEMPLATE_CONTROL_FD, .events = POLLIN},
        };

        poll(fds, 2, RESULT_MS);
        if (fds[0].revents == 0 && fds[1].revents != 0)
                return -EAGAIN;
        return fds[0].revents == POLLIN;
}

/* Until all is seen we write to little: what both have written, each has to itself. */
static int watch(pid_t worker, int channel)
{
        int r = await_result(channel);

        if (r > 0)
                pages_see(worker);
        syscall(SYS_kill, worker, SIGKILL);
        syscall(SYS_wait4, worker, NULL, 0, NULL);
        return r < 0 ? r : 0;
}

int warm_up(const char *cell, size_t n, struct template_session *ret)
{
        int pair[2], r = 0;

        if (syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return 0;
        if (send_cell(pair[0], cell, n) == 0) {
                py.PyOS_BeforeFork();
                pid_t worker = fork();
                if (worker == 0) {
                        become_worker(pair[1], ret);
                        py.PyOS_AfterFork_Child();
                        return 1;
                }
                if (worker > 0)
                        r = watch(worker, pair[0]);
                py.PyOS_AfterFork_Parent();
        }
        fd_close_many(pair, 2);
        return r;
}
