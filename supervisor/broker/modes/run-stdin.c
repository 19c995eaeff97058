/* Requests to the process that reads standard input. */
#include "supervisor/broker/modes/run-stdin.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "base/fd.h"
#include "rpc/frame.h"

struct run_stdin {
        int fd;
        struct event *readable;
        struct buffer in; /* answers: a length of four bytes, and as many bytes; 0 at the end */
        size_t wanted;    /* by the code; 0: it does not read */
        size_t left;      /* of the answer at the front of `in` */
        bool is_asked;    /* the process, for an answer that is not complete */
        bool has_ended;
        void (*give)(void *data, const char *bytes, size_t n);
        void *data;
};

static void hand_over(struct run_stdin *in, size_t n)
{
        _cleanup_free_ char *bytes = malloc(n + 1);

        if (bytes && n > 0)
                memcpy(bytes, buffer_bytes(&in->in), n);
        in->wanted = 0;
        buffer_consume(&in->in, n);
        in->left -= n;
        in->give(in->data, bytes ? bytes : "", bytes ? n : 0);
}

static void end(struct run_stdin *in)
{
        in->has_ended = true;
        event_del(in->readable);
}

/* A terminal may deliver more input after its end of file. */
static void take_length(struct run_stdin *in)
{
        uint32_t length;

        if (in->in.length < sizeof(length))
                return;
        memcpy(&length, buffer_bytes(&in->in), sizeof(length));
        buffer_consume(&in->in, sizeof(length));
        in->is_asked = false;
        in->left = length;
        if (length > FRAME_READ_MAX)
                end(in);
        else if (length == 0 && in->wanted > 0)
                hand_over(in, 0);
}

static void answer(struct run_stdin *in)
{
        if (in->is_asked && in->left == 0)
                take_length(in);
        size_t there = in->in.length < in->left ? in->in.length : in->left;
        if (!in->has_ended && in->wanted > 0 && there > 0)
                hand_over(in, there < in->wanted ? there : in->wanted);
        if (in->has_ended && in->wanted > 0) {
                in->left = 0;
                hand_over(in, 0);
        }
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
        struct run_stdin *in = data;

        ssize_t n = buffer_read_fd(&in->in, in->fd, FRAME_READ_MAX);
        if (n == -EAGAIN || n == -EINTR)
                return;
        if (n <= 0)
                end(in);
        answer(in);
}

void run_stdin_read(struct run_stdin *in, size_t n)
{
        uint32_t request = (uint32_t)n;

        in->wanted = n;
        if (in->left == 0 && !in->is_asked && !in->has_ended) {
                in->is_asked = true;
                if (fd_write_all(in->fd, &request, sizeof(request)) < 0)
                        end(in);
        }
        answer(in);
}

void run_stdin_drop(struct run_stdin *in)
{
        in->wanted = 0;
}

int run_stdin_new(struct run_stdin **ret, struct event_base *base, int fd,
                  void (*give)(void *data, const char *bytes, size_t n), void *data,
                  struct error *err)
{
        struct run_stdin *in = calloc(1, sizeof(*in));

        if (!in)
                return error_errno(err, ENOMEM, "standard input");
        *in = (struct run_stdin){
                .fd = fd,
                .in = BUFFER_INIT(4 * FRAME_READ_MAX),
                .give = give,
                .data = data,
        };
        int r = fd_set_nonblocking(fd, 1);
        in->readable = r < 0 ? NULL : event_new(base, fd, EV_READ | EV_PERSIST, on_readable, in);
        if (!in->readable || event_add(in->readable, NULL) < 0) {
                run_stdin_free(in);
                return error_errno(err, r < 0 ? -r : ENOMEM, "standard input");
        }
        *ret = in;
        return 0;
}

struct run_stdin *run_stdin_free(struct run_stdin *in)
{
        if (!in)
                return NULL;
        if (in->readable)
                event_free(in->readable);
        buffer_done(&in->in);
        free(in);
        return NULL;
}
