/* The broker's channel to a worker: what is sent in the stream, what in a memfd, and the bounds. */
#include "supervisor/session/channel.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/unit/test.h"

struct rig {
        struct event_base *base;
        struct channel channel;
        int worker;
        int frames, closed;
        char *got; /* the last frame's payload */
        struct frame_header header;
};

static int on_frame(void *data, const struct frame_header *header, const char *payload,
                    struct error *err)
{
        struct rig *r = data;

        (void)err;
        r->frames++;
        r->header = *header;
        free(r->got);
        r->got = payload ? strndup(payload, header->length) : NULL;
        return 0;
}

static bool may_take(void *data)
{
        (void)data;
        return true;
}

static void on_closed(void *data, const struct error *error)
{
        struct rig *r = data;

        (void)error;
        r->closed++;
}

static void open_with(struct rig *r, int fd)
{
        const struct channel_owner owner = {r, on_frame, may_take, on_closed};
        struct error err = {};

        *r = (struct rig){.base = event_base_new(), .worker = -1};
        check(r->base);
        check_ok(channel_open(&r->channel, r->base, fd, &owner, &err));
}

static void open_rig(struct rig *r)
{
        int pair[2];

        check_eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        open_with(r, pair[0]);
        r->worker = pair[1];
}

static void close_rig(struct rig *r)
{
        channel_close(&r->channel);
        event_base_free(r->base);
        if (r->worker >= 0)
                close(r->worker);
        free(r->got);
}

static void spin(struct rig *r)
{
        for (int i = 0; i < 20; i++)
                event_base_loop(r->base, EVLOOP_NONBLOCK);
}

/* A RETURN of n bytes, in two parts. */
static int send_return(struct rig *r, uint64_t id, size_t n)
{
        char *text = calloc(1, n);

        check(text);
        memset(text, 'a' + (int)(id % 26), n);
        const struct iovec parts[] = {{text, n / 2}, {text + n / 2, n - n / 2}};
        int result = channel_send_parts(&r->channel, FRAME_RETURN, id, parts, 2);
        free(text);
        return result;
}

/* The next header with its descriptor, -1 when it has none; the payload in the stream is read too.
 */
static int receive(struct rig *r, struct frame_header *header)
{
        uint8_t bytes[FRAME_HEADER_SIZE];
        struct error err = {};
        int fd = -1;
        size_t count = 1;

        spin(r);
        check_eq_int(fd_receive(r->worker, bytes, sizeof(bytes), &fd, &count, NULL, 0),
                     FRAME_HEADER_SIZE);
        check_ok(frame_header_decode(bytes, FRAME_PAYLOAD_MAX, header, &err));
        char *rest = malloc(frame_size(header));
        for (size_t left = frame_size(header) - FRAME_HEADER_SIZE; left > 0;) {
                event_base_loop(r->base, EVLOOP_NONBLOCK);
                ssize_t n = recv(r->worker, rest, left, MSG_DONTWAIT);
                check(n > 0 || errno == EAGAIN);
                left -= n > 0 ? (size_t)n : 0;
        }
        free(rest);
        check_eq_int(count, header->flags & FRAME_IN_MEMFD ? 1 : 0);
        return count ? fd : -1;
}

static void test_bound(void)
{
        struct frame_header header;
        struct rig r;

        open_rig(&r);
        check_eq_int(send_return(&r, 1, MEMFD_FRAME_MIN - 1), 0);
        check_eq_int(receive(&r, &header), -1);
        check_eq_int(header.flags, 0);
        check_eq_int(send_return(&r, 2, MEMFD_FRAME_MIN), 0);
        int fd = receive(&r, &header);
        check_eq_int(header.flags, FRAME_IN_MEMFD);
        check_eq_int(header.length, MEMFD_FRAME_MIN);
        check_eq_int(header.id, 2);
        struct stat st;
        check_eq_int(fstat(fd, &st), 0);
        check_eq_int(st.st_size, MEMFD_FRAME_MIN);
        char text[2] = "";
        check_eq_int(pread(fd, text, 1, MEMFD_FRAME_MIN - 1), 1);
        check_eq_str(text, "c");
        check((fcntl(fd, F_GET_SEALS) & (F_SEAL_WRITE | F_SEAL_GROW)) ==
              (F_SEAL_WRITE | F_SEAL_GROW));
        close(fd);
        /* Only a RETURN may have one. */
        char *text2 = calloc(1, MEMFD_FRAME_MIN);
        const struct iovec part = {text2, MEMFD_FRAME_MIN};
        check_eq_int(channel_send_parts(&r.channel, FRAME_CATALOG, 3, &part, 1), 0);
        check_eq_int(receive(&r, &header), -1);
        check_eq_int(header.type, FRAME_CATALOG);
        free(text2);
        close_rig(&r);
}

/* Small payloads, large ones, some larger than the socket's buffer: they arrive in order. */
static void test_order(void)
{
        struct frame_header header;
        struct rig r;

        open_rig(&r);
        for (uint64_t id = 0; id < 12; id++)
                check_eq_int(send_return(&r, id,
                                         id % 3 == 0   ? 10
                                         : id % 3 == 1 ? MEMFD_FRAME_MIN
                                                       : MEMFD_FRAME_MIN - 1),
                             0);
        for (uint64_t id = 0; id < 12; id++) {
                int fd = receive(&r, &header);
                check_eq_int(header.id, id);
                check_eq_int(fd >= 0, id % 3 == 1);
                char text[2] = "";
                if (fd >= 0) {
                        check_eq_int(pread(fd, text, 1, 0), 1);
                        check_eq_int(text[0], 'a' + (int)id);
                        close(fd);
                }
        }
        close_rig(&r);
}

/* A worker that keeps the memfds it gets: after a number of memfds, payloads go in the stream, and after
 * that no frames are accepted. A memfd that the worker truncates does not count. */
static void test_kept_ones(void)
{
        struct frame_header header;
        struct rig r;
        int fds[MEMFD_QUEUE_MAX];

        open_rig(&r);
        for (int i = 0; i < MEMFD_QUEUE_MAX; i++) {
                check_eq_int(send_return(&r, (uint64_t)i, 10 << 20), 0);
                fds[i] = receive(&r, &header);
                check(fds[i] >= 0);
        }
        check_eq_int(send_return(&r, 50, 10 << 20), 0);
        check_eq_int(receive(&r, &header), -1);
        check_eq_int(send_return(&r, 51, 48 << 20), -EMSGSIZE);

        struct buffer b = BUFFER_INIT(1024);
        check_eq_int(frame_append(&b, FRAME_LOG, 0, "{}", 2), 0);
        check_eq_int(write(r.worker, buffer_bytes(&b), b.length), (ssize_t)b.length);
        buffer_done(&b);
        spin(&r);
        check_eq_int(r.frames, 0);
        for (int i = 0; i < MEMFD_QUEUE_MAX; i++)
                check_eq_int(ftruncate(fds[i], 0), 0);
        for (int i = 0; i < 1000 && r.frames == 0; i++) {
                spin(&r);
                usleep(1000);
        }
        check_eq_int(r.frames, 1);
        check_eq_int(r.channel.memfds.n, 0);
        check_eq_int(send_return(&r, 51, 48 << 20), 0);
        check(receive(&r, &header) >= 0);
        close_rig(&r);
}

/* The memory that a worker keeps is freed when the channel ends, and by channel_take_back(). */
static void test_end(void)
{
        struct frame_header header;
        struct stat st;
        struct rig r;

        open_rig(&r);
        check_eq_int(send_return(&r, 1, MEMFD_FRAME_MIN), 0);
        check_eq_int(send_return(&r, 2, MEMFD_FRAME_MIN), 0);
        int first = receive(&r, &header), second = receive(&r, &header);
        channel_take_back(&r.channel, 1);
        check_eq_int(fstat(first, &st), 0);
        check_eq_int(st.st_size, 0);
        check_eq_int(fstat(second, &st), 0);
        check_eq_int(st.st_size, MEMFD_FRAME_MIN);
        close_rig(&r);
        check_eq_int(fstat(second, &st), 0);
        check_eq_int(st.st_size, 0);
        close(first);
        close(second);
}

/* If no descriptor can be sent, the payload goes in the stream. This stream accepts no descriptors
 * and returns what is written to it. */
static void test_no_descriptors(void)
{
        char path[] = "/tmp/test-channel-XXXXXX";
        struct rig r;

        check(mkdtemp(path));
        char fifo[sizeof(path) + 8];
        snprintf(fifo, sizeof(fifo), "%s/fifo", path);
        check_eq_int(mkfifo(fifo, 0600), 0);
        int fd = open(fifo, O_RDWR | O_CLOEXEC);
        check(fd >= 0);
        unlink(fifo);
        rmdir(path);
        open_with(&r, fd);
        check_eq_int(send_return(&r, 1, 2 * MEMFD_FRAME_MIN), 0);
        check_eq_int(send_return(&r, 2, 2 * MEMFD_FRAME_MIN), 0);
        check_eq_int(send_return(&r, 3, 5), 0);
        for (int i = 0; i < 1000 && r.frames < 3; i++) {
                spin(&r);
                if (r.frames == 2) {
                        check_eq_int(r.header.flags, 0);
                        check_eq_int(r.header.length, 2 * MEMFD_FRAME_MIN);
                        check_eq_int(strspn(r.got, "c"), 2 * MEMFD_FRAME_MIN);
                }
        }
        check_eq_int(r.frames, 3);
        check_eq_str(r.got, "ddddd");
        check_eq_int(r.channel.memfds.n, 0);
        check_eq_int(r.closed, 0);
        close_rig(&r);
}

int main(void)
{
        signal(SIGPIPE, SIG_IGN);
        run(test_bound);
        run(test_order);
        run(test_kept_ones);
        run(test_end);
        run(test_no_descriptors);
        return 0;
}
