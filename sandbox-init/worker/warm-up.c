/* The warm-up of templates and workers. */
#include "sandbox-init/worker/warm-up.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "rpc/frame.h"
#include "sandbox-init/worker/channel.h"

/* Sends the cell and then the end of the stream: if the cell does not arrive, the reader ends
 * instead of waiting forever. */
static int send_cell(int channel, const char *cell, size_t n)
{
        struct frame_header header = {.length = (uint32_t)n, .type = FRAME_EXEC, .id = 1};
        uint8_t frame[FRAME_HEADER_SIZE + WARM_UP_CELL_MAX];

        if (n > WARM_UP_CELL_MAX)
                return -EMSGSIZE;
        frame_header_encode(&header, frame);
        memcpy(frame + FRAME_HEADER_SIZE, cell, n);
        int r = fd_write_all(channel, frame, FRAME_HEADER_SIZE + n);
        if (r >= 0 && syscall(SYS_shutdown, channel, SHUT_WR) < 0)
                r = -errno;
        return r;
}

PyObject *warm_up_run(PyObject *args)
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
        PyObject *result = NULL;
        int r = send_cell(pair[0], cell, (size_t)n);
        if (r < 0) {
                py.PyErr_Format(*py.PyExc_RuntimeError, "send a cell: errno %d", -r);
        } else if (channel_divert(pair[1]) < 0) {
                py.PyErr_Format(*py.PyExc_RuntimeError, "the channel was read already");
        } else {
                result = py.PyObject_CallObject(turn, NULL);
                channel_restore();
        }
        fd_close_many(pair, 2);
        return result;
}
