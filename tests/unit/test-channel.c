/* The broker's channel to a worker: what is sent in the stream, what in a memfd, and the bounds. */
#include "supervisor/session/channel/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
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
        size_t n_arguments;
        char why[256];
};

static int on_frame(void *data, const struct frame_header *header, struct frame_body *body,
                    struct error *err)
{
        struct rig *r = data;

        (void)err;
        r->frames++;
        r->header = *header;
        free(r->got);
        if (body->arguments)
                r->n_arguments = body->arguments->n;
        r->got = body->bytes ? strndup(body->bytes, header->length) : NULL;
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

        snprintf(r->why, sizeof(r->why), "%s", error ? error->text : "");
        r->closed++;
}

static void open_with(struct rig *r, int fd)
{
        const struct channel_owner owner = {r, "s", on_frame, may_take, on_closed};
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

/* The next frame of a pipe, which the caller frees. */
static char *read_frame(struct rig *r, int fd, struct frame_header *header)
{
        uint8_t bytes[FRAME_HEADER_SIZE];
        struct error err = {};

        spin(r);
        check_eq_int(read(fd, bytes, sizeof(bytes)), sizeof(bytes));
        check_ok(frame_header_decode(bytes, FRAME_PAYLOAD_MAX, header, &err));
        char *payload = malloc(header->length);
        for (size_t at = 0; at < header->length;) {
                event_base_loop(r->base, EVLOOP_NONBLOCK);
                ssize_t n = read(fd, payload + at, header->length - at);
                check(n > 0 || errno == EAGAIN);
                at += n > 0 ? (size_t)n : 0;
        }
        return payload;
}

/* If no descriptor can be sent, the payload goes in the stream. This stream accepts none. */
static void test_no_descriptors(void)
{
        char path[] = "/tmp/test-channel-XXXXXX";
        struct frame_header header;
        struct rig r;

        check(mkdtemp(path));
        char fifo[sizeof(path) + 8];
        snprintf(fifo, sizeof(fifo), "%s/fifo", path);
        check_eq_int(mkfifo(fifo, 0600), 0);
        int fd = open(fifo, O_RDWR | O_CLOEXEC);
        int reader = open(fifo, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        check(fd >= 0 && reader >= 0);
        unlink(fifo);
        rmdir(path);
        open_with(&r, fd);
        /* Else it would read what it writes. */
        event_del(r.channel.readable);
        check_eq_int(send_return(&r, 1, 2 * MEMFD_FRAME_MIN), 0);
        check_eq_int(send_return(&r, 2, 2 * MEMFD_FRAME_MIN), 0);
        check_eq_int(send_return(&r, 3, 5), 0);
        for (uint64_t i = 1; i <= 3; i++) {
                char *payload = read_frame(&r, reader, &header);
                check_eq_int(header.flags, 0);
                check_eq_int(header.id, i);
                check_eq_int(header.length, i == 3 ? 5 : 2 * MEMFD_FRAME_MIN);
                check_eq_int(payload[header.length - 1], 'a' + (int)i);
                free(payload);
        }
        check_eq_int(r.channel.memfds.n, 0);
        check_eq_int(r.closed, 0);
        close_rig(&r);
        close(reader);
}

static void send_header(struct rig *r, uint8_t type, uint32_t length)
{
        const struct frame_header header = {.length = length, .type = type, .id = 1};
        uint8_t bytes[FRAME_HEADER_SIZE];

        frame_header_encode(&header, bytes);
        check_eq_int(write(r->worker, bytes, sizeof(bytes)), sizeof(bytes));
        spin(r);
}

/* Writes n bytes of a payload as the channel reads them. */
static void send_bytes(struct rig *r, const char *bytes, size_t n)
{
        for (int i = 0; n > 0 && i < 100000; i++) {
                ssize_t sent = send(r->worker, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
                bytes += sent > 0 ? sent : 0;
                n -= sent > 0 ? (size_t)sent : 0;
                event_base_loop(r->base, EVLOOP_NONBLOCK);
        }
        check_eq_int(n, 0);
}

static void wait_for(struct rig *r, const int *count, int wanted)
{
        for (int i = 0; i < 5000 && *count < wanted; i++) {
                usleep(1000);
                spin(r);
        }
        check_eq_int(*count, wanted);
}

/* A call of n bytes whose argument is a string. */
static char *make_call(size_t n)
{
        static const char before[] = "{\"server\":\"s\",\"arguments\":{\"a\": \"", after[] = "\"}}";
        char *text = malloc(n + 1);

        check(text && n >= sizeof(before) + sizeof(after));
        memset(text, 'x', n);
        memcpy(text, before, sizeof(before) - 1);
        memcpy(text + n - sizeof(after) + 1, after, sizeof(after));
        return text;
}

/* A large frame is parsed in the background, and those behind it wait. */
static void test_large(void)
{
        enum { N = 3 * 1024 * 1024 };
        struct rig r;
        char *text = make_call(N);

        open_rig(&r);
        send_header(&r, FRAME_CALL, N);
        send_bytes(&r, text, N);
        send_header(&r, FRAME_LOG, 2);
        send_bytes(&r, "{}", 2);
        wait_for(&r, &r.frames, 2);
        check_eq_int(r.header.type, FRAME_LOG);
        check(r.n_arguments > 0 && r.n_arguments < N);
        check_eq_int(r.closed, 0);
        check_eq_int(r.channel.reservation.bytes, 0);
        close_rig(&r);
        free(text);
}

/* The bound of each type is checked at the header. */
static void test_worker_bounds(void)
{
        static const uint8_t types[] = {FRAME_CALL, FRAME_DISPLAY, FRAME_RESULT,
                                        FRAME_DATA, FRAME_LOG,     FRAME_QUERY,
                                        FRAME_DROP, FRAME_EXEC,    FRAME_PROGRESS};
        struct rig r;

        for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
                uint32_t most = frame_worker_max(types[i]);
                open_rig(&r);
                send_header(&r, types[i], most);
                check_eq_int(r.closed, 0);
                close_rig(&r);
                open_rig(&r);
                send_header(&r, types[i], most + 1);
                check_eq_int(r.closed, 1);
                check_has(r.why, "bytes, at most");
                close_rig(&r);
        }
}

/* Sessions that begin large frames wait for memory; the next one gets it when one ends. */
static void test_claims(void)
{
        enum { N = RESERVATION_FRAMES_MAX / FRAME_CALL_MAX + 1 };
        struct rig r[N];

        for (int i = 0; i < N; i++) {
                open_rig(&r[i]);
                send_header(&r[i], FRAME_CALL, FRAME_CALL_MAX);
                check_eq_int(r[i].channel.is_large, i < N - 1);
        }
        close_rig(&r[0]);
        spin(&r[N - 1]);
        check(r[N - 1].channel.is_large);
        for (int i = 1; i < N; i++)
                close_rig(&r[i]);
}

/* Incomplete frames of all sessions together are bounded. Other frames pass. The first late
 * frame ends its session, because others wait. */
static void test_parts(void)
{
        enum { N = 100, PART = 100 * 1024 };
        static struct rig r[N];
        static char bytes[PART];
        size_t sum = 0;
        int waiting = -1;
        struct rig other;

        for (int i = 0; i < N; i++) {
                open_rig(&r[i]);
                send_header(&r[i], FRAME_CALL, PART + 1);
                for (int k = 0; k < 20; k++) {
                        (void)!send(r[i].worker, bytes, 4096, MSG_DONTWAIT | MSG_NOSIGNAL);
                        event_base_loop(r[i].base, EVLOOP_NONBLOCK);
                }
                sum += r[i].channel.in.allocated;
                if (waiting < 0 && r[i].channel.reservation.waits)
                        waiting = i;
        }
        check(sum <= RESERVATION_PARTS_MAX + (size_t)N * 32 * 1024);
        check(waiting > 50);

        open_rig(&other);
        send_header(&other, FRAME_LOG, 2);
        send_bytes(&other, "{}", 2);
        check_eq_int(other.frames, 1);
        close_rig(&other);

        /* So does a larger one that is there as a whole. */
        open_rig(&other);
        uint8_t header[FRAME_HEADER_SIZE];
        frame_header_encode(
                &(struct frame_header){.length = sizeof(bytes), .type = FRAME_CALL, .id = 1},
                header);
        check_eq_int(write(other.worker, header, sizeof(header)), sizeof(header));
        check_eq_int(write(other.worker, bytes, sizeof(bytes)), sizeof(bytes));
        spin(&other);
        check_eq_int(other.frames, 1);
        close_rig(&other);

        usleep((RESERVATION_PARTS_MS + 50) * 1000);
        spin(&r[waiting]);
        check_eq_int(r[0].closed, 1);
        check_has(r[0].why, "CALL frame was not complete in time: other sessions wait");
        check(memory_reservation_is_granted(&r[waiting].channel.reservation));
        check_eq_int(r[waiting].closed, 0);
        for (int i = 0; i < N; i++)
                close_rig(&r[i]);
}

/* A frame of any length arrives in pieces of any length, and its memory is given back. */
static void test_pieces(void)
{
        static const size_t lengths[] = {100, 16 * 1024, 16 * 1024 + 1, 60000, RESERVATION_MIN},
                            pieces[] = {1000, 16 * 1024, 50000, RESERVATION_MIN};
        struct rig r;

        open_rig(&r);
        for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
                for (size_t k = 0; k < ARRAY_SIZE(pieces); k++) {
                        char *text = make_call(lengths[i]);
                        r.frames = 0;
                        send_header(&r, FRAME_CALL, (uint32_t)lengths[i]);
                        for (size_t at = 0; at < lengths[i]; at += pieces[k]) {
                                size_t left = lengths[i] - at;
                                send_bytes(&r, text + at, left < pieces[k] ? left : pieces[k]);
                        }
                        spin(&r);
                        check_eq_int(r.frames, 1);
                        check_eq_bytes(r.got, strlen(r.got), text);
                        free(text);
                        check(r.channel.in.allocated <= 32 * 1024);
                        check_eq_int(r.channel.reservation.bytes, 0);
                }
        }
        check_eq_int(r.closed, 0);
        close_rig(&r);
}

/* Answers that workers do not read are bounded in all, and no session can take all the room. */
static void test_unread_of_all(void)
{
        enum { MIB = 1024 * 1024 };
        struct rig r[3];
        size_t sum = 0;

        for (int i = 0; i < 3; i++) {
                struct memory_account *account = memory_account_new(ACCOUNT_OF_SESSION);
                open_rig(&r[i]);
                charge_open(&r[i].channel.kept, account);
                memory_account_unref(account);
                for (uint64_t k = 0; k < 5; k++)
                        sum += send_return(&r[i], k + 1, 30 * MIB) == 0 ? 30 * MIB : 0;
        }
        check(sum <= ACCOUNTS_SESSIONS_MAX);
        check(sum >= 150 * MIB);
        check_eq_int(send_return(&r[2], 7, 30 * MIB), -ENOBUFS);
        check_eq_int(send_return(&r[2], 8, 5 * MIB), 0);
        close_rig(&r[0]);
        check_eq_int(send_return(&r[2], 9, 30 * MIB), 0);
        close_rig(&r[1]);
        close_rig(&r[2]);
}

/* JSON of many values ends the session before memory is taken for them; so does an object with so
 * many members that looking one up takes long. */
static void test_many_values(void)
{
        enum { N = 4 * 1024 * 1024 };
        struct rig r;
        char *text = malloc(N);

        check(text);
        for (size_t i = 0; i < N; i++)
                text[i] = i % 2 == 0 ? '0' : ',';
        text[0] = '[';
        open_rig(&r);
        send_header(&r, FRAME_CALL, N);
        send_bytes(&r, text, N);
        wait_for(&r, &r.closed, 1);
        check_has(r.why, "CALL: JSON of more than 1000000 values");
        close_rig(&r);
        free(text);
}

/* A frame whose payload arrives slowly, or never, ends the session after ten seconds. */
static void test_late(void)
{
        struct timeval due, now;
        struct rig r;

        for (int large = 0; large <= 1; large++) {
                open_rig(&r);
                send_header(&r, FRAME_CALL, large ? FRAME_CALL_MAX : 1000);
                check(evtimer_pending(r.channel.late, NULL));
                for (int i = 0; i < 3; i++)
                        send_bytes(&r, "{", 1);
                check(event_pending(r.channel.late, EV_TIMEOUT, &due));
                gettimeofday(&now, NULL);
                check(due.tv_sec - now.tv_sec <= CHANNEL_FRAME_MS / 1000 + 1);
                event_active(r.channel.late, EV_TIMEOUT, 0);
                spin(&r);
                check_eq_int(r.closed, 1);
                check_has(r.why, "CALL frame was not complete after 10 s");
                close_rig(&r);
        }
        /* A part of a header. */
        open_rig(&r);
        send_bytes(&r, "x", 1);
        check(evtimer_pending(r.channel.late, NULL));
        close_rig(&r);
        /* A complete frame is not timed. */
        open_rig(&r);
        send_header(&r, FRAME_LOG, 2);
        send_bytes(&r, "{}", 2);
        spin(&r);
        check(!evtimer_pending(r.channel.late, NULL));
        check_eq_int(r.frames, 1);
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
        run(test_large);
        run(test_worker_bounds);
        run(test_claims);
        run(test_parts);
        run(test_pieces);
        run(test_unread_of_all);
        run(test_many_values);
        run(test_late);
        return 0;
}
