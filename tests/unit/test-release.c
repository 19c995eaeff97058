/* A worker that was forked and is not yet released reads nothing from the channel. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-init/worker/channel.h"
#include "tests/unit/test.h"

static const raw_signals no_signals;

static void open_channel(int *peer, int *release)
{
        int pair[2], ends[2];

        check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
        check(pipe(ends) == 0);
        channel_open(pair[0], ends[0], -1);
        *peer = pair[1];
        *release = ends[1];
}

static void send_frame(int peer)
{
        const struct frame_header frame = {.length = 2, .type = FRAME_EXEC, .id = 1};
        uint8_t header[FRAME_HEADER_SIZE];

        frame_header_encode(&frame, header);
        check(write(peer, header, sizeof(header)) == sizeof(header));
        check(write(peer, "{}", 2) == 2);
}

static void test_waits_for_init(void)
{
        struct frame_header header;
        const char *payload;
        int peer, release;

        open_channel(&peer, &release);
        send_frame(peer);
        check_eq_int(channel_wait(0, &no_signals), 0);
        check_eq_int(channel_peek(&header, &payload, NULL), 0);

        check(write(release, "r", 1) == 1);
        check_eq_int(channel_wait(0, &no_signals), 1);
        check_eq_int(channel_pull(), 0);
        check_eq_int(channel_peek(&header, &payload, NULL), 1);
        check_eq_int(header.type, FRAME_EXEC);
        channel_next(&header);
        close(release);
        close(peer);
        channel_forget();
}

static void test_init_that_ends_releases_nobody(void)
{
        struct frame_header header;
        const char *payload;
        int peer, release;

        open_channel(&peer, &release);
        send_frame(peer);
        close(release);
        check_eq_int(channel_pull(), -EPIPE);
        check_eq_int(channel_peek(&header, &payload, NULL), 0);
        close(peer);
        channel_forget();
}

/* The control: what a channel does that has nothing to wait for. */
static void test_reads_at_once(void)
{
        struct frame_header header;
        const char *payload;
        int pair[2];

        check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
        channel_open(pair[0], -1, -1);
        send_frame(pair[1]);
        check_eq_int(channel_pull(), 0);
        check_eq_int(channel_peek(&header, &payload, NULL), 1);
        close(pair[1]);
        channel_forget();
}

/* init takes the listener by its number: it stays open until init has released the worker, also while the worker serves another
 * channel, and no longer. */
static void test_listener(void)
{
        struct frame_header header;
        const char *payload;
        int own[2], other[2], ends[2];

        check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, own) == 0);
        check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, other) == 0);
        check(pipe(ends) == 0);
        int listener = dup(STDERR_FILENO);
        channel_open(own[0], ends[0], listener);
        check_eq_int(channel_divert(other[0]), 0);
        send_frame(other[1]);
        check_eq_int(channel_pull(), 0);
        check(fcntl(listener, F_GETFD) >= 0);
        channel_restore();
        check(write(ends[1], "r", 1) == 1);
        send_frame(own[1]);
        check_eq_int(channel_pull(), 0);
        check_eq_int(channel_peek(&header, &payload, NULL), 1);
        channel_next(&header);
        check(fcntl(listener, F_GETFD) < 0 && errno == EBADF);
        for (int i = 0; i < 2; i++)
                close(other[i]);
        close(own[1]);
        close(ends[1]);
        channel_forget();
}

int main(void)
{
        test_listener(); /* a channel that was read cannot be diverted any more */
        test_waits_for_init();
        test_init_that_ends_releases_nobody();
        test_reads_at_once();
        return 0;
}
