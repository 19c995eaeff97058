/* Output that does not block and does not change what is shared. */
#include "supervisor/broker/sink.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "supervisor/session/clock.h"

enum {
        WRITES_AT_ONCE = 64,
        TURN_BYTES = 1024 * 1024, /* then the loop has its turn */
        FILE_CHUNK = 1024 * 1024,
        PIPE_CHUNK = 64 * 1024, /* what a pipe holds as it comes */
};

static bool polls_writable(int fd)
{
        struct pollfd p = {.fd = fd, .events = POLLOUT};

        return poll(&p, 1, 0) == 1 && (p.revents & (POLLOUT | POLLERR | POLLHUP | POLLNVAL));
}

/* Asks the kernel not to block this one write. Not every kernel does so for pipes (before 6.5
 * none): those say so, and nothing is written. */
static ssize_t write_nowait(struct sink *sink, const char *bytes, size_t n)
{
        const struct iovec part = {.iov_base = (void *)bytes,
                                   .iov_len = n < PIPE_CHUNK ? n : PIPE_CHUNK};
        ssize_t written = pwritev2(sink->fd, &part, 1, -1, RWF_NOWAIT);

        return written < 0 ? -errno : written;
}

static ssize_t write_polled(struct sink *sink, const char *bytes, size_t n)
{
        if (!polls_writable(sink->fd))
                return -EAGAIN;
        ssize_t written = write(sink->fd, bytes, n < PIPE_BUF ? n : PIPE_BUF);
        return written < 0 ? -errno : written;
}

static ssize_t write_pipe(struct sink *sink, const char *bytes, size_t n)
{
        if (!sink->has_nowait)
                return write_polled(sink, bytes, n);
        ssize_t r = write_nowait(sink, bytes, n);
        if (r != -EOPNOTSUPP && r != -ENOSYS && r != -EINVAL)
                return r;
        sink->has_nowait = false;
        return write_polled(sink, bytes, n);
}

/* Writes once, as much as cannot block. Returns bytes or negative errno. */
static ssize_t write_once(struct sink *sink)
{
        const char *bytes = buffer_bytes(&sink->buffer);
        size_t n = sink->buffer.length;
        ssize_t written;

        if (sink->kind == SINK_PIPE)
                return write_pipe(sink, bytes, n);
        if (sink->kind == SINK_SOCKET)
                written = send(sink->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        else
                written = write(sink->fd, bytes, n < FILE_CHUNK ? n : FILE_CHUNK);
        return written < 0 ? -errno : written;
}

static void fail(struct sink *sink, int code)
{
        sink->broken = true;
        buffer_done(&sink->buffer);
        if (sink->waiting)
                event_del(sink->writable);
        sink->waiting = false;
        sink->owner.broken(sink->owner.data, code);
}

static void pump(struct sink *sink)
{
        size_t done = 0;
        ssize_t n = 0;

        for (int i = 0; i < WRITES_AT_ONCE && done < TURN_BYTES && sink->buffer.length > 0; i++) {
                n = write_once(sink);
                if (n == -EAGAIN)
                        break;
                if (n < 0 && n != -EINTR) {
                        fail(sink, (int)-n);
                        return;
                }
                if (n > 0) {
                        buffer_consume(&sink->buffer, (size_t)n);
                        done += (size_t)n;
                }
        }
        bool more = sink->buffer.length > 0;
        struct timeval now = {};
        if (more && !sink->waiting)
                event_add(sink->writable, sink->kind == SINK_FILE ? &now : NULL);
        if (!more && sink->waiting)
                event_del(sink->writable);
        sink->waiting = more;
}

static void on_writable(evutil_socket_t fd, short what, void *data)
{
        struct sink *sink = data;

        /* What does not poll (a file) is driven by a timer that is set anew each time. */
        if (sink->kind == SINK_FILE)
                sink->waiting = false;
        pump(sink);
        if (sink->broken || sink_is_full(sink))
                return;
        if (sink->was_full || sink->buffer.length == 0) {
                sink->was_full = false;
                sink->owner.drained(sink->owner.data);
        }
}

void sink_write(struct sink *sink, const void *bytes, size_t n)
{
        if (sink->broken || n == 0)
                return;
        int r = buffer_append(&sink->buffer, bytes, n);
        if (r < 0) {
                fail(sink, -r);
                return;
        }
        if (!sink->waiting)
                pump(sink);
        if (sink_is_full(sink))
                sink->was_full = true;
}

void sink_flush(struct sink *sink, int timeout_ms)
{
        uint64_t end = clock_us() + (uint64_t)timeout_ms * 1000;

        while (!sink_is_empty(sink)) {
                uint64_t now = clock_us();
                struct pollfd p = {.fd = sink->fd, .events = POLLOUT};

                pump(sink);
                if (sink_is_empty(sink) || now >= end)
                        return;
                poll(&p, 1, (int)((end - now) / 1000) + 1);
        }
}

int sink_open(struct sink *sink, struct event_base *base, int fd, const struct sink_owner *owner,
              struct error *err)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return error_errno(err, errno, "descriptor %d", fd);
        bool polls = S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || isatty(fd);
        *sink = (struct sink){
                .fd = fd,
                .kind = S_ISSOCK(st.st_mode) ? SINK_SOCKET
                        : polls              ? SINK_PIPE
                                             : SINK_FILE,
                .owner = *owner,
                .buffer = BUFFER_INIT(SINK_MAX),
                .has_nowait = S_ISFIFO(st.st_mode),
        };
        sink->writable = event_new(base, polls ? fd : -1, polls ? EV_WRITE | EV_PERSIST : 0,
                                   on_writable, sink);
        return sink->writable ? 0 : error_errno(err, ENOMEM, "descriptor %d", fd);
}

void sink_close(struct sink *sink)
{
        if (sink->writable)
                event_free(sink->writable);
        sink->writable = NULL;
        buffer_done(&sink->buffer);
        sink->broken = true;
}
