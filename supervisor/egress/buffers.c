/* The kernel's buffers of the proxy's sockets. */
#include "supervisor/egress/buffers.h"

#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
        LOCK_SEND = 1, /* values of SO_BUF_LOCK (socket(7)), Linux 5.14 */
        LOCK_RECEIVE = 2,
        GRANT_LEAST = 48 * 1024,
        LOCAL_MOST = 128 * 1024, /* on the client's side, whose round trip is short */
};

static void set(int fd, int option, int value)
{
        (void)setsockopt(fd, SOL_SOCKET, option, &value, sizeof(value));
}

static int get(int fd, int option)
{
        int value = 0;
        socklen_t n = sizeof(value);

        return getsockopt(fd, SOL_SOCKET, option, &value, &n) == 0 ? value : 0;
}

/* The kernel doubles both. */
static void set_sizes(int fd, size_t receive, size_t send)
{
        if (receive > 0)
                set(fd, SO_RCVBUF, (int)(receive / 2));
        if (send > 0)
                set(fd, SO_SNDBUF, (int)(send / 2));
}

void buffers_start(int fd)
{
        set_sizes(fd, BUFFER_SMALL, BUFFER_SMALL);
        set(fd, SO_BUF_LOCK, LOCK_SEND);
}

void buffers_fix(int fd)
{
        set(fd, SO_BUF_LOCK, LOCK_SEND | LOCK_RECEIVE);
}

/* SO_RCVBUF goes to rmem_max only, which is a fraction of tcp_rmem, and leaves the largest window as it is. SO_RCVLOWAT
 * makes both large enough for a number of bytes; the first call tells how many bytes fit. */
static void grow_receive(int fd, size_t most)
{
        size_t fits = most / 8;

        set(fd, SO_BUF_LOCK, LOCK_SEND);
        set(fd, SO_RCVLOWAT, (int)fits);
        int size = get(fd, SO_RCVBUF);
        if (size > 0 && (size_t)size < most)
                set(fd, SO_RCVLOWAT, (int)(most * fits / (size_t)size));
        buffers_fix(fd);
        set(fd, SO_RCVLOWAT, 1);
        if ((size_t)get(fd, SO_RCVBUF) > most)
                set_sizes(fd, most, 0);
}

/* Where wmem_max is smaller, the kernel's own growth is bounded by tcp_wmem. */
static void grow_send(int fd, size_t most)
{
        set_sizes(fd, 0, most);
        if ((size_t)get(fd, SO_SNDBUF) < most / 2)
                set(fd, SO_BUF_LOCK, LOCK_RECEIVE);
}

size_t buffers_grow(struct egress_session *s, int from, int to, bool is_in, size_t granted)
{
        size_t each = BUFFERS_EACH - s->granted, all = (BUFFERS_ALL - s->egress->granted) / 2;
        size_t left = granted + (each < all ? each : all);
        size_t size = left - left / 16, local = size / 8, more = size - granted;

        if (size < GRANT_LEAST || size < granted * 2)
                return 0;
        s->granted += more;
        s->egress->granted += more;
        if (local > LOCAL_MOST)
                local = LOCAL_MOST;
        if (is_in) {
                grow_receive(from, size - local);
                set_sizes(to, 0, local);
        } else {
                grow_receive(from, local);
                grow_send(to, size - local);
        }
        return more;
}

void buffers_return(struct egress_session *s, size_t granted)
{
        s->granted -= granted;
        s->egress->granted -= granted;
}

bool buffers_shrink(int from, int to)
{
        uint32_t memory[SK_MEMINFO_VARS] = {};
        socklen_t n = sizeof(memory);

        if (getsockopt(from, SOL_SOCKET, SO_MEMINFO, memory, &n) < 0 ||
            memory[SK_MEMINFO_RMEM_ALLOC] > 0)
                return false;
        n = sizeof(memory);
        if (getsockopt(to, SOL_SOCKET, SO_MEMINFO, memory, &n) < 0 ||
            memory[SK_MEMINFO_WMEM_QUEUED] > 0)
                return false;
        set_sizes(from, BUFFER_SMALL, 0);
        set_sizes(to, 0, BUFFER_SMALL);
        return true;
}

void buffers_close(int server)
{
        const struct linger drop = {.l_onoff = 1};
        int left = 0;

        /* The end of the stream counts as one. */
        if (ioctl(server, SIOCOUTQ, &left) == 0 && left > 1)
                (void)setsockopt(server, SOL_SOCKET, SO_LINGER, &drop, sizeof(drop));
        close(server);
}
