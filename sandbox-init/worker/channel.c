/* The worker's end of the frame channel. */
#include "sandbox-init/worker/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
        PAGE = 4096,
        READ_MIN =
                32 *
                1024, /* the buffer keeps that much when empty: no allocation for a small frame */
        READ_MAX = 1024 * 1024,
        PULL_MAX = 8 * 1024 * 1024, /* read before frames are handed on, unless one is longer */
        BUFFERED_MAX = 2 * (FRAME_PAYLOAD_MAX + FRAME_HEADER_SIZE),
        QUEUED_MAX = 512, /* a few calls: while more are made, the broker sends these on */
        MEMFDS_MAX = 8,   /* of frames that are read and not yet handed on */
};

#define SEALS (F_SEAL_GROW | F_SEAL_WRITE)

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* Tells the worker from its children, however they were made. Needs no system call where the kernel
 * can wipe a page in forked processes (MADV_WIPEONFORK, Linux 4.14). */
static struct {
        pid_t pid;
        volatile uint8_t *mark; /* not 0 in the owner; NULL: ask for the pid */
} owner;

static uint8_t *wiped_page(void)
{
        long at = raw_call(SYS_mmap, 0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                           -1, 0);

        if (at < 0 && at >= -4095)
                return NULL;
        if (raw_call(SYS_madvise, at, PAGE, MADV_WIPEONFORK, 0, 0, 0) < 0) {
                raw_call(SYS_munmap, at, PAGE, 0, 0, 0, 0);
                return NULL;
        }
        return (uint8_t *)(uintptr_t)at;
}

static pid_t own_pid(void)
{
        return (pid_t)raw_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

static void owner_set(void)
{
        /* In a fork of an owner the page exists, and is wiped. */
        if (!owner.mark)
                owner.mark = wiped_page();
        if (owner.mark)
                *owner.mark = 1;
        owner.pid = own_pid();
}

/* The kernel wipes pages of the mapping, not of the address. */
static void owner_renew(void)
{
        owner.mark = NULL;
        owner_set();
}

bool channel_is_ours(void)
{
        return owner.mark ? *owner.mark != 0 : owner.pid != 0 && owner.pid == own_pid();
}

/* A lock between threads that needs no libc: 0 free, 1 taken, 2 taken and waited for. */
struct lock {
        uint32_t state;
};

static bool lock_try(struct lock *lock)
{
        uint32_t state = 0;

        return __atomic_compare_exchange_n(&lock->state, &state, 1, 0, __ATOMIC_ACQUIRE,
                                           __ATOMIC_RELAXED);
}

static void lock_take(struct lock *lock)
{
        if (lock_try(lock))
                return;
        while (__atomic_exchange_n(&lock->state, 2, __ATOMIC_ACQUIRE) != 0)
                raw_futex(&lock->state, FUTEX_WAIT_PRIVATE, 2, NULL, 0);
}

static void lock_release(struct lock *lock)
{
        if (__atomic_exchange_n(&lock->state, 0, __ATOMIC_RELEASE) == 2)
                raw_futex(&lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, 0);
}

static struct {
        int fd;
        int release, listener;      /* -1 once init has written to release */
        int own_fd, own_release;    /* the session's, while the channel is diverted */
        bool is_diverted, was_read; /* was_read: bytes of the session's channel */
        struct buffer in, out;      /* out: frames that are queued */
        int memfds[MEMFDS_MAX]; /* in the order of their frames; negative errno for a lost one */
        unsigned n_memfds;
        struct lock sending;
} channel = {
        .fd = -1,
        .release = -1,
        .listener = -1,
        .in = BUFFER_INIT(BUFFERED_MAX),
        .out = BUFFER_INIT(QUEUED_MAX),
};

/* Nothing while the channel is diverted: init may not have taken the listener yet. */
static void close_release(void)
{
        if (channel.release < 0)
                return;
        raw_call(SYS_close, channel.release, 0, 0, 0, 0, 0);
        if (channel.listener >= 0)
                raw_call(SYS_close, channel.listener, 0, 0, 0, 0, 0);
        channel.release = channel.listener = -1;
}

static void drop_memfds(void)
{
        for (; channel.n_memfds > 0; channel.n_memfds--)
                if (channel.memfds[channel.n_memfds - 1] >= 0)
                        close(channel.memfds[channel.n_memfds - 1]);
}

void channel_forget(void)
{
        close_release();
        if (channel.fd >= 0)
                close(channel.fd);
        channel.fd = -1;
        drop_memfds();
}

static void drop_buffered(void)
{
        buffer_consume(&channel.in, channel.in.length);
        buffer_consume(&channel.out, channel.out.length);
}

/* A thread that the fork lacks may have held the lock. */
void channel_adopt(void)
{
        char dropped[4096];

        owner_set();
        channel.sending = (struct lock){0};
        while (raw_call(SYS_recvfrom, channel.fd, raw_pointer(dropped), sizeof(dropped),
                        MSG_DONTWAIT, 0, 0) > 0)
                ;
        drop_buffered();
        drop_memfds();
}

int channel_number(void)
{
        return channel.fd;
}

void channel_branch(void)
{
        owner_renew();
        channel.release = -1;
        channel.n_memfds = 0;
        channel.sending = (struct lock){0};
        drop_buffered();
}

int channel_take_fd(void)
{
        if (channel.n_memfds == 0)
                return -EBADF;
        int fd = channel.memfds[0];
        channel.n_memfds--;
        __builtin_memmove(channel.memfds, channel.memfds + 1,
                          channel.n_memfds * sizeof(channel.memfds[0]));
        return fd;
}

void channel_open(int fd, int release, int listener)
{
        channel.fd = fd;
        channel.release = release;
        channel.listener = listener;
        owner_set();
}

int channel_divert(int fd)
{
        if (channel.is_diverted || channel.was_read)
                return -EBUSY;
        channel.own_fd = channel.fd;
        channel.own_release = channel.release;
        channel.is_diverted = true;
        channel.fd = fd;
        channel.release = -1;
        owner_set();
        return 0;
}

void channel_restore(void)
{
        channel.fd = channel.own_fd;
        channel.release = channel.own_release;
        channel.is_diverted = false;
        drop_buffered();
}

int channel_fd(void)
{
        /* A child made by C code has not run channel_forget(). */
        return channel_is_ours() ? channel.fd : -1;
}

static size_t missing(void)
{
        struct frame_header header;

        if (channel.in.length < FRAME_HEADER_SIZE ||
            frame_header_decode((const uint8_t *)buffer_bytes(&channel.in), FRAME_PAYLOAD_MAX,
                                &header, NULL) < 0)
                return 0;
        size_t whole = frame_size(&header);
        return whole > channel.in.length ? whole - channel.in.length : 0;
}

bool channel_full(void)
{
        return channel.in.length > BUFFERED_MAX / 2 || channel.n_memfds == MEMFDS_MAX;
}

long channel_receive(int socket, void *data, size_t n, int *ret)
{
        union {
                char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(3 * sizeof(int))];
                struct cmsghdr align;
        } control;
        struct iovec part = {.iov_base = data, .iov_len = n};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof(control.bytes)};

        *ret = -1;
        long got = raw_call(SYS_recvmsg, socket, raw_pointer(&message),
                            MSG_DONTWAIT | MSG_CMSG_CLOEXEC, 0, 0, 0);
        if (got <= 0)
                return got;
        if (message.msg_flags & MSG_CTRUNC)
                *ret = -EMFILE;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
                if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
                        __builtin_memcpy(ret, CMSG_DATA(c), sizeof(*ret));
        return got;
}

static long receive(int fd, size_t most)
{
        int passed;

        long n = channel_receive(fd, buffer_tail(&channel.in), most, &passed);
        if (passed != -1)
                channel.memfds[channel.n_memfds++] = passed;
        return n;
}

/* -EPIPE when init has ended before it released the worker. */
static int await_release(void)
{
        char byte;
        long n = 1;

        while (channel.release >= 0 &&
               (n = raw_call(SYS_read, channel.release, raw_pointer(&byte), 1, 0, 0, 0)) == -EINTR)
                ;
        if (n != 1)
                return -EPIPE;
        close_release();
        return 0;
}

int channel_pull(void)
{
        int fd = channel_fd();
        size_t total = 0;

        if (await_release() < 0)
                return -EPIPE;
        while (channel.n_memfds < MEMFDS_MAX && (total < PULL_MAX || missing() > 0)) {
                size_t chunk = missing();
                if (chunk < READ_MIN)
                        chunk = READ_MIN;
                if (chunk > READ_MAX)
                        chunk = READ_MAX;
                int r = buffer_reserve(&channel.in, chunk);
                if (r == -EMSGSIZE)
                        return 0;
                if (r < 0)
                        return r;
                long n = receive(fd, chunk);
                if (n == -EINTR)
                        continue;
                if (n == -EAGAIN)
                        return 0;
                if (n <= 0)
                        return -EPIPE;
                channel.was_read |= !channel.is_diverted;
                buffer_produced(&channel.in, (size_t)n);
                total += (size_t)n;
                if ((size_t)n < chunk && missing() == 0)
                        return 0;
        }
        return 0;
}

int channel_peek(struct frame_header *ret, const char **payload, struct error *err)
{
        return frame_peek(&channel.in, FRAME_PAYLOAD_MAX, ret, payload, err);
}

void channel_next(const struct frame_header *header)
{
        buffer_consume(&channel.in, frame_size(header));
}

/* The guest may have closed the descriptor and opened another file under its number. */
static bool is_ours(int fd, uint32_t length)
{
        long seals = raw_call(SYS_fcntl, fd, F_GET_SEALS, 0, 0, 0, 0);

        return seals >= 0 && (seals & SEALS) == SEALS &&
               raw_call(SYS_lseek, fd, 0, SEEK_END, 0, 0, 0) == length;
}

int channel_map(const struct frame_header *header, struct channel_view *ret)
{
        int fd = channel_take_fd();
        if (fd < 0)
                return fd;
        if (!is_ours(fd, header->length))
                return -EBADF;
        long at = raw_call(SYS_mmap, 0, header->length, PROT_READ, MAP_SHARED | MAP_POPULATE, fd,
                           0);
        *ret = (struct channel_view){
                .fd = fd,
                .length = header->length,
                .bytes = at < 0 && at > -4096 ? NULL : (const char *)at,
        };
        return 0;
}

void channel_unmap(const struct channel_view *view)
{
        if (view->bytes)
                raw_call(SYS_munmap, raw_pointer(view->bytes), (long)view->length, 0, 0, 0, 0);
        raw_call(SYS_ftruncate, view->fd, 0, 0, 0, 0, 0);
        raw_call(SYS_close, view->fd, 0, 0, 0, 0, 0);
}

static long wait_for(struct pollfd *p, long n, int timeout_ms, const raw_signals *mask)
{
        struct __kernel_timespec timeout = {.tv_sec = timeout_ms / 1000,
                                            .tv_nsec = timeout_ms % 1000 * 1000000L};

        return raw_call(SYS_ppoll, raw_pointer(p), n, timeout_ms < 0 ? 0 : raw_pointer(&timeout),
                        raw_pointer(mask), sizeof(*mask), 0);
}

int channel_wait(int timeout_ms, const raw_signals *mask)
{
        struct pollfd release = {.fd = channel.release, .events = POLLIN};
        struct pollfd p = {.fd = channel_fd(), .events = POLLIN};
        long r = 1;

        if (channel.release >= 0)
                r = wait_for(&release, 1, timeout_ms, mask);
        if (r > 0)
                r = await_release() < 0 ? 1 : wait_for(&p, 1, timeout_ms, mask);
        if (r < 0)
                return r == -EINTR ? -EINTR : 1;
        return r > 0;
}

int channel_wait_beside(int other, int timeout_ms)
{
        struct pollfd p[] = {
                {.fd = channel_fd(), .events = POLLIN},
                {.fd = other, .events = POLLIN},
        };

        long r = wait_for(p, 2, timeout_ms, NULL);
        if (r < 0)
                return r == -EINTR ? 0 : CHANNEL_READY | CHANNEL_OTHER_READY;
        return (p[0].revents ? CHANNEL_READY : 0) | (p[1].revents ? CHANNEL_OTHER_READY : 0);
}

/* Waits until the socket takes more; *reading: whether to read in the meantime. Returns 0 or
 * -EPIPE. */
static int wait_writable(int fd, bool *reading, bool (*pull)(void *data), void *data)
{
        struct pollfd p = {.fd = fd, .events = POLLOUT};

        if (*reading)
                p.events |= POLLIN;
        long r = wait_for(&p, 1, -1, NULL);
        if (r < 0)
                return r == -EINTR ? 0 : -EPIPE;
        if (p.revents & (POLLNVAL | POLLERR))
                return -EPIPE;
        if (!(p.revents & POLLOUT) && p.revents & (POLLIN | POLLHUP))
                *reading = pull(data);
        return 0;
}

static int send_all(int fd, struct iovec *part, size_t parts, bool (*pull)(void *data), void *data)
{
        bool reading = true;

        while (parts > 0) {
                struct msghdr message = {.msg_iov = part, .msg_iovlen = parts};
                long n = raw_call(SYS_sendmsg, fd, raw_pointer(&message),
                                  MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0, 0);
                if (n == -EINTR)
                        continue;
                if (n < 0 && n != -EAGAIN)
                        return -EPIPE;
                if (n < 0) {
                        int r = wait_writable(fd, &reading, pull, data);
                        if (r < 0)
                                return r;
                        continue;
                }
                for (; parts > 0 && (size_t)n >= part->iov_len; part++, parts--)
                        n -= (long)part->iov_len;
                if (parts > 0) {
                        part->iov_base = (char *)part->iov_base + n;
                        part->iov_len -= (size_t)n;
                }
        }
        return 0;
}

/* Sends the frames that are queued, and then this frame. */
static int send_after_queued(int fd, struct iovec frame[2], bool (*pull)(void *data), void *data)
{
        struct iovec part[] = {
                {.iov_base = (void *)(uintptr_t)buffer_bytes(&channel.out),
                 .iov_len = channel.out.length},
                frame[0],
                frame[1],
        };
        bool are_any = channel.out.length > 0;

        int r = send_all(fd, part + !are_any,
                         (size_t)are_any + (frame[0].iov_len > 0) + (frame[1].iov_len > 0), pull,
                         data);
        if (are_any)
                buffer_consume(&channel.out, channel.out.length);
        return r;
}

int channel_send(uint8_t type, uint64_t id, const void *payload, size_t n, bool (*pull)(void *data),
                 void *data)
{
        uint8_t header[FRAME_HEADER_SIZE];
        struct iovec part[] = {
                {.iov_base = header, .iov_len = sizeof(header)},
                {.iov_base = (void *)(uintptr_t)payload, .iov_len = n},
        };
        int fd = channel_fd();

        if (fd < 0)
                return -EPIPE;
        if (n > FRAME_PAYLOAD_MAX)
                return -EMSGSIZE;
        frame_header_encode(&(struct frame_header){.length = (uint32_t)n, .type = type, .id = id},
                            header);

        lock_take(&channel.sending);
        int r = send_after_queued(fd, part, pull, data);
        lock_release(&channel.sending);
        return r;
}

int channel_queue(uint8_t type, uint64_t id, const void *payload, size_t n)
{
        if (channel_fd() < 0)
                return -EPIPE;
        /* A sender that has the lock may wait for the interpreter's, which the caller has. */
        if (!lock_try(&channel.sending))
                return -EAGAIN;
        int r = frame_append(&channel.out, type, id, payload, n);
        lock_release(&channel.sending);
        return r;
}

bool channel_has_queued(void)
{
        return channel.out.length > 0;
}

int channel_flush(bool (*pull)(void *data), void *data)
{
        struct iovec none[2] = {};
        int fd = channel_fd();

        lock_take(&channel.sending);
        int r = fd < 0 ? 0 : send_after_queued(fd, none, pull, data);
        lock_release(&channel.sending);
        return r;
}
