/* Non-blocking output without O_NONBLOCK. */
#include "supervisor/broker/writer.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"

enum {
        WRITES_AT_ONCE = 64,
        TURN_BYTES = 1024 * 1024, /* in one turn of the loop */
        FILE_CHUNK = 1024 * 1024,
        PIPE_CHUNK = 64 * 1024, /* the default capacity of a pipe */
};

static bool polls_writable(int fd)
{
        struct pollfd p = {.fd = fd, .events = POLLOUT};

        return poll(&p, 1, 0) == 1 && (p.revents & (POLLOUT | POLLERR | POLLHUP | POLLNVAL));
}

/* Writes without blocking. Kernels before 6.5 refuse this for pipes and write nothing. */
static ssize_t write_nowait(struct writer *writer, const char *bytes, size_t n)
{
        const struct iovec part = {.iov_base = (void *)bytes,
                                   .iov_len = n < PIPE_CHUNK ? n : PIPE_CHUNK};
        ssize_t written = pwritev2(writer->fd, &part, 1, -1, RWF_NOWAIT);

        return written < 0 ? -errno : written;
}

static ssize_t write_polled(struct writer *writer, const char *bytes, size_t n)
{
        if (!polls_writable(writer->fd))
                return -EAGAIN;
        ssize_t written = write(writer->fd, bytes, n < PIPE_BUF ? n : PIPE_BUF);
        return written < 0 ? -errno : written;
}

static ssize_t write_pipe(struct writer *writer, const char *bytes, size_t n)
{
        if (!writer->has_nowait)
                return write_polled(writer, bytes, n);
        ssize_t r = write_nowait(writer, bytes, n);
        /* EPERM: a filter does not know the call. */
        if (r != -EOPNOTSUPP && r != -ENOSYS && r != -EINVAL && r != -EPERM)
                return r;
        writer->has_nowait = false;
        return write_polled(writer, bytes, n);
}

/* Writes once, as much as cannot block. Returns bytes or negative errno. */
static ssize_t write_once(struct writer *writer)
{
        const char *bytes = buffer_bytes(&writer->buffer);
        size_t n = writer->buffer.length;
        ssize_t written;

        if (writer->kind == WRITER_PIPE)
                return write_pipe(writer, bytes, n);
        if (writer->kind == WRITER_SOCKET)
                written = send(writer->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        else
                written = write(writer->fd, bytes, n < FILE_CHUNK ? n : FILE_CHUNK);
        return written < 0 ? -errno : written;
}

static void fail(struct writer *writer, int code)
{
        writer->broken = true;
        buffer_done(&writer->buffer);
        if (writer->waiting)
                event_del(writer->writable);
        writer->waiting = false;
        writer->owner.broken(writer->owner.data, code);
}

static void pump(struct writer *writer)
{
        size_t done = 0;
        ssize_t n = 0;

        for (int i = 0; i < WRITES_AT_ONCE && done < TURN_BYTES && writer->buffer.length > 0; i++) {
                n = write_once(writer);
                if (n == -EAGAIN)
                        break;
                if (n < 0 && n != -EINTR) {
                        fail(writer, (int)-n);
                        return;
                }
                if (n > 0) {
                        buffer_consume(&writer->buffer, (size_t)n);
                        done += (size_t)n;
                }
        }
        bool more = writer->buffer.length > 0;
        struct timeval now = {};
        if (more && !writer->waiting)
                event_add(writer->writable, writer->kind == WRITER_FILE ? &now : NULL);
        if (!more && writer->waiting)
                event_del(writer->writable);
        writer->waiting = more;
}

static void on_writable(evutil_socket_t fd, short what, void *data)
{
        struct writer *writer = data;

        /* A file does not support poll(): a timer drives it, and is set again each time. */
        if (writer->kind == WRITER_FILE)
                writer->waiting = false;
        pump(writer);
        if (writer->broken || writer_is_full(writer))
                return;
        if (writer->was_full || writer->buffer.length == 0) {
                writer->was_full = false;
                writer->owner.drained(writer->owner.data);
        }
}

void writer_write(struct writer *writer, const void *bytes, size_t n)
{
        if (writer->broken || n == 0)
                return;
        int r = writer->buffer.length > WRITER_MAX ? -ENOBUFS
                                                   : buffer_append(&writer->buffer, bytes, n);
        if (r < 0) {
                fail(writer, -r);
                return;
        }
        if (!writer->waiting)
                pump(writer);
        if (writer_is_full(writer))
                writer->was_full = true;
}

void writer_flush(struct writer *writer, int timeout_ms)
{
        uint64_t end = clock_us() + (uint64_t)timeout_ms * 1000;

        while (!writer_is_empty(writer)) {
                uint64_t now = clock_us();
                struct pollfd p = {.fd = writer->fd, .events = POLLOUT};

                pump(writer);
                if (writer_is_empty(writer) || now >= end)
                        return;
                poll(&p, 1, (int)((end - now) / 1000) + 1);
        }
}

int writer_open(struct writer *writer, struct event_base *base, int fd,
                const struct writer_owner *owner, struct error *err)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return error_errno(err, errno, "descriptor %d", fd);
        bool polls = S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || isatty(fd);
        *writer = (struct writer){
                .fd = fd,
                .kind = S_ISSOCK(st.st_mode) ? WRITER_SOCKET
                        : polls              ? WRITER_PIPE
                                             : WRITER_FILE,
                .owner = *owner,
                .buffer = BUFFER_INIT(WRITER_MAX + WRITER_MESSAGE_MAX),
                .has_nowait = S_ISFIFO(st.st_mode),
        };
        writer->writable = event_new(base, polls ? fd : -1, polls ? EV_WRITE | EV_PERSIST : 0,
                                     on_writable, writer);
        return writer->writable ? 0 : error_errno(err, ENOMEM, "descriptor %d", fd);
}

void writer_close(struct writer *writer)
{
        if (writer->writable)
                event_free(writer->writable);
        writer->writable = NULL;
        buffer_done(&writer->buffer);
        writer->broken = true;
}
