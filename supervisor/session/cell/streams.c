/* Pipes from a sandbox. */
#include "supervisor/session/cell/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"

enum { READ_AT_ONCE = 64 * 1024, PIPE_DEFAULT = 64 * 1024 };

static enum cell_stream which(const struct stream *stream)
{
        return stream == &stream->streams->list[CELL_STDOUT] ? CELL_STDOUT : CELL_STDERR;
}

/* Adds to the output of a cell, or NULL: to the output between cells. Keeps less if all sessions keep much. */
static int keep(struct stream *stream, struct cell *cell, const char *bytes, size_t n)
{
        struct capture *capture = cell ? &cell->outcome.streams[which(stream)] : &stream->stray;
        struct charge *charge = cell ? &cell->outcome.kept : &stream->kept;
        size_t growth = capture_growth(capture, n);

        if (growth > 0 && !charge_fits(charge, growth))
                capture_squeeze(capture);
        int r = capture_append(capture, bytes, n);
        if (growth > 0 && cell)
                cell_outcome_charge(&cell->outcome);
        else if (growth > 0)
                charge_set(charge, capture_bytes(capture));
        return r;
}

static void take(struct stream *stream, const char *bytes, size_t n)
{
        struct cell *cell = stream->streams->cell;

        stream->streams->has_come = true;
        if (cell && cell->request.output) {
                cell->request.output(cell->request.data, which(stream), bytes, n);
                return;
        }
        if (cell && cell->request.watch)
                cell->request.watch(cell->request.data, which(stream), bytes, n);
        if (keep(stream, cell, bytes, n) < 0)
                log_warning("session %s: output was dropped: out of memory",
                            stream->streams->session);
}

/* Reads once. Returns the number of bytes; 0: there are none now, or the pipe is at its end. */
static size_t read_some(struct stream *stream)
{
        char bytes[READ_AT_ONCE] _uninitialized_;
        ssize_t n;

        if (stream->fd < 0)
                return 0;
        do
                n = read(stream->fd, bytes, sizeof(bytes));
        while (n < 0 && errno == EINTR);
        if (n > 0) {
                take(stream, bytes, (size_t)n);
                return (size_t)n;
        }
        /* There is no writer any more: the code may have closed its own streams. */
        if (n == 0 || errno != EAGAIN)
                event_del(stream->event);
        return 0;
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
        read_some(data);
}

void streams_init(struct streams *streams, const char *session)
{
        *streams = (struct streams){.session = session};
        for (int i = 0; i < CELL_STREAMS; i++) {
                streams->list[i].fd = -1;
                capture_init(&streams->list[i].stray);
        }
}

static int open_one(struct streams *streams, enum cell_stream which, struct event_base *base,
                    struct memory_account *account, int fd, struct error *err)
{
        struct stream *stream = &streams->list[which];

        *stream = (struct stream){.streams = streams, .fd = fd};
        capture_init(&stream->stray);
        charge_open(&stream->kept, account);
        stream->event = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, stream);
        int r = fd_set_nonblocking(fd, 1);
        if (r < 0 || !stream->event)
                return error_errno(err, r < 0 ? -r : ENOMEM, "output of a sandbox");
        if (!streams->is_paused)
                event_add(stream->event, NULL);
        return 0;
}

int streams_open(struct streams *streams, struct event_base *base, struct memory_account *account,
                 int out, int err_fd, struct error *err)
{
        streams->has_come = false;
        int r = open_one(streams, CELL_STDOUT, base, account, out, err);
        int s = open_one(streams, CELL_STDERR, base, account, err_fd, r < 0 ? NULL : err);

        return r < 0 ? r : s;
}

void streams_close(struct streams *streams)
{
        for (int i = 0; i < CELL_STREAMS; i++) {
                struct stream *stream = &streams->list[i];
                loop_event_free(&stream->event);
                if (stream->fd >= 0)
                        close(stream->fd);
                capture_done(&stream->stray);
                charge_done(&stream->kept);
                stream->fd = -1;
        }
}

/* The code may have enlarged its pipe. */
static size_t size_of(int fd)
{
        int size = fd < 0 ? 0 : fcntl(fd, F_GETPIPE_SZ);

        return size > 0 ? (size_t)size : PIPE_DEFAULT;
}

/* Usually both are empty: one call checks both. */
static bool is_any_readable(const struct streams *streams)
{
        struct pollfd p[CELL_STREAMS];

        for (int i = 0; i < CELL_STREAMS; i++)
                p[i] = (struct pollfd){.fd = streams->list[i].fd, .events = POLLIN};
        return poll(p, CELL_STREAMS, 0) != 0;
}

void streams_drain(struct streams *streams)
{
        if (!is_any_readable(streams))
                return;
        for (int i = 0; i < CELL_STREAMS; i++) {
                struct stream *stream = &streams->list[i];
                size_t n = 0, got;

                while ((got = read_some(stream)) > 0) {
                        n += got;
                        if (n >= PIPE_DEFAULT && n >= size_of(stream->fd))
                                break;
                }
        }
}

void streams_begin(struct streams *streams, struct cell *cell)
{
        streams_drain(streams);
        streams->cell = cell;
        static const char before[] = "[output of background work before this call]\n",
                          after[] = "[output of this call]\n";

        for (int i = 0; i < CELL_STREAMS && !cell->request.output; i++) {
                struct stream *stream = &streams->list[i];
                struct capture *stray = &stream->stray;

                if (stray->bytes == 0)
                        continue;
                _cleanup_buffer_ struct buffer text = BUFFER_INIT(4 * CAPTURE_KEEP);
                bool cut;
                capture_finish(stray);
                int r = capture_render(stray, OUTPUT_CHARACTERS_MAX, &text, &cut);
                capture_done(stray);
                charge_set(&stream->kept, 0);
                if (r >= 0)
                        r = keep(stream, cell, before, sizeof(before) - 1);
                if (r >= 0)
                        r = keep(stream, cell, buffer_bytes(&text), text.length);
                if (r >= 0 && text.length > 0 && buffer_bytes(&text)[text.length - 1] != '\n')
                        r = keep(stream, cell, "\n", 1);
                if (r >= 0)
                        keep(stream, cell, after, sizeof(after) - 1);
        }
}

void streams_end(struct streams *streams)
{
        streams->cell = NULL;
}

void streams_pause(struct streams *streams, bool paused)
{
        if (streams->is_paused == paused)
                return;
        streams->is_paused = paused;
        for (int i = 0; i < CELL_STREAMS; i++) {
                struct event *event = streams->list[i].event;
                if (event && paused)
                        event_del(event);
                else if (event)
                        event_add(event, NULL);
        }
}
