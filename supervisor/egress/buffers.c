/* The kernel's buffers of the proxy's sockets. */
#include "supervisor/egress/buffers.h"

#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/share.h"

enum {
        LOCK_SEND = 1, /* values of SO_BUF_LOCK (socket(7)), Linux 5.14 */
        LOCK_RECEIVE = 2,
        GRANT_LEAST = 48 * 1024,
        LOCAL_MOST = 128 * 1024, /* on the client's side, whose round trip is short */
        KERNEL_GROWS = BUFFERS_EACH - BUFFERS_EACH / 16,
        UNUSED_MS = 1000,
        ASKED_AT_ONCE = 8,
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

/* SO_RCVBUF goes to rmem_max only, which is a fraction of tcp_rmem, and leaves the largest window
 * as it is. SO_RCVLOWAT makes both large enough for a number of bytes; the first call that has an
 * effect tells how many bytes fit. */
static void grow_receive(int fd, size_t most)
{
        const int before = get(fd, SO_RCVBUF);
        int size = before;
        size_t fits = most / 8;

        set(fd, SO_BUF_LOCK, LOCK_SEND);
        for (; fits < most && size == before; fits += size == before ? fits / 8 : 0) {
                set(fd, SO_RCVLOWAT, (int)fits);
                size = get(fd, SO_RCVBUF);
        }
        if (size > 0 && (size_t)size < most)
                set(fd, SO_RCVLOWAT, (int)(most * fits / (size_t)size));
        buffers_fix(fd);
        set(fd, SO_RCVLOWAT, 1);
        if ((size_t)get(fd, SO_RCVBUF) > most)
                set_sizes(fd, most, 0);
}

/* Where wmem_max is smaller, the kernel's own growth is bounded by tcp_wmem only: it is for the one
 * flow that has nearly all. */
static void grow_send(int fd, size_t most)
{
        set_sizes(fd, 0, most);
        if (most >= KERNEL_GROWS && (size_t)get(fd, SO_SNDBUF) < most / 2)
                set(fd, SO_BUF_LOCK, LOCK_RECEIVE);
}

/* Halved until the principal may have it. */
static size_t get_left(const struct egress_session *s)
{
        size_t n = BUFFERS_EACH - s->granted;

        while (n >= GRANT_LEAST &&
               !share_allows(s->principal->granted, s->egress->granted, BUFFERS_ALL, n))
                n /= 2;
        return n;
}

static bool holds_at_most(int fd, int what, size_t size)
{
        uint32_t memory[SK_MEMINFO_VARS] = {};
        socklen_t n = sizeof(memory);

        return getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &n) == 0 && memory[what] <= size;
}

static void set_granted(struct room *r, size_t granted)
{
        struct egress_session *s = r->session;
        struct room **at = &s->egress->rooms;

        if (r->granted == 0) {
                r->next = *at;
                *at = r;
        }
        s->granted += granted - r->granted;
        s->principal->granted += granted - r->granted;
        s->egress->granted += granted - r->granted;
        r->granted = granted;
        if (granted > 0)
                return;
        while (*at != r)
                at = &(*at)->next;
        *at = r->next;
}

/* Returns false if there are too many bytes in them for it. */
static bool resize(struct room *r, size_t granted)
{
        size_t local = granted / 8 < LOCAL_MOST ? granted / 8 : LOCAL_MOST;
        size_t from = BUFFER_SMALL + (r->is_in ? granted - local : local);
        size_t to = BUFFER_SMALL + (r->is_in ? local : granted - local);

        if (granted < r->granted) {
                if (!holds_at_most(r->from, SK_MEMINFO_RMEM_ALLOC, from) ||
                    !holds_at_most(r->to, SK_MEMINFO_WMEM_QUEUED, to))
                        return false;
                set_sizes(r->from, BUFFER_SMALL, 0);
        }
        if (granted > 0)
                grow_receive(r->from, from);
        if (r->is_in)
                set_sizes(r->to, 0, to);
        else
                grow_send(r->to, to);
        set_granted(r, granted);
        return true;
}

/* Returns the bytes to take of those that are left; 0: they are too few. */
static size_t get_more(const struct room *r, size_t left)
{
        size_t more = r->granted > 0 ? left - left / 16 : left / 2;

        return more >= GRANT_LEAST && more >= r->granted / 4 ? more : 0;
}

static bool grow(struct room *r)
{
        size_t more = get_more(r, get_left(r->session));

        return more > 0 && resize(r, r->granted + more);
}

static bool may_ask(const struct room *r, const struct room *o)
{
        const struct egress_session *s = r->session;

        if (o->session == s)
                return o != r;
        if (get_more(r, BUFFERS_EACH - s->granted) == 0)
                return false; /* its session has all that it may have */
        return o->session->principal->id == s->principal->id ||
               o->session->principal->granted >= s->principal->granted;
}

static struct room *find_donor(const struct room *r, uint64_t now)
{
        size_t least = 4 * (r->granted > GRANT_LEAST ? r->granted : GRANT_LEAST);
        struct room *idle = NULL, *large = NULL;

        for (struct room *o = r->session->egress->rooms; o; o = o->next) {
                bool is_idle = now - o->moved_ms >= UNUSED_MS;
                bool is_better = is_idle ? !idle || o->moved_ms < idle->moved_ms
                                         : o->granted >= (large ? large->granted + 1 : least);
                if (!is_better || now - o->asked_ms < UNUSED_MS || !may_ask(r, o))
                        continue;
                if (is_idle)
                        idle = o;
                else
                        large = o;
        }
        return idle ? idle : large;
}

/* A donor is tried once in UNUSED_MS, so that those which cannot give do not hide others. */
static void ask(struct room *r, uint64_t now)
{
        for (int i = 0; i < ASKED_AT_ONCE && !grow(r); i++) {
                struct room *donor = find_donor(r, now);
                if (!donor)
                        return;
                donor->asked_ms = now;
                if (now - donor->moved_ms < UNUSED_MS || !resize(donor, 0))
                        (void)resize(donor, donor->granted / 2);
        }
}

void buffers_begin(struct room *r)
{
        r->moved_ms = clock_ms();
        (void)grow(r);
}

void buffers_moved(struct room *r, struct room *other)
{
        if (r->moved - r->counted < BUFFERS_GROW_AFTER)
                return;
        r->counted = r->moved;
        r->moved_ms = clock_ms();
        if (other->granted > 0 && other->moved < r->moved / 8)
                (void)resize(other, 0);
        if (!grow(r) && r->granted < BUFFERS_EACH / 2)
                ask(r, r->moved_ms);
}

void buffers_end(struct room *r)
{
        if (r->granted > 0)
                set_granted(r, 0);
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
