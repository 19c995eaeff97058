#include "tests/unit/fake-clock.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* aarch64 has neither of the calls epoll_wait and poll.
 *
 * Not the headers' declarations: with _FORTIFY_SOURCE, poll() is an inline function there, which may
 * call __poll_chk(). */
struct epoll_event;
struct pollfd;
int clock_gettime(clockid_t id, struct timespec *ret);
int epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms);
int poll(struct pollfd *fds, unsigned long n, int timeout_ms);
int __poll_chk(struct pollfd *fds, unsigned long n, int timeout_ms, size_t size);

static int64_t offset_ns;  /* added to the real time while the clock runs */
static int64_t stopped_ns; /* the time while the clock is stopped */
static bool stands, skips_idle;

static int64_t real_ns(clockid_t id)
{
        struct timespec t = {};

        syscall(SYS_clock_gettime, id, &t);
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void fake_clock_advance_ms(uint64_t ms)
{
        *(stands ? &stopped_ns : &offset_ns) += (int64_t)ms * 1000000;
}

void fake_clock_stop(bool on)
{
        if (on && !stands)
                stopped_ns = real_ns(CLOCK_MONOTONIC) + offset_ns;
        else if (!on && stands)
                offset_ns = stopped_ns - real_ns(CLOCK_MONOTONIC);
        stands = on;
        skips_idle = false;
}

void fake_clock_skip_idle(bool on)
{
        fake_clock_stop(on);
        skips_idle = on;
}

int clock_gettime(clockid_t id, struct timespec *ret)
{
        /* libevent uses the coarse clock. */
        if (id != CLOCK_MONOTONIC && id != CLOCK_MONOTONIC_COARSE && id != CLOCK_BOOTTIME)
                return (int)syscall(SYS_clock_gettime, id, ret);
        int64_t ns = stands ? stopped_ns : real_ns(id) + offset_ns;
        *ret = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
        return 0;
}

int epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms)
{
        bool skips = skips_idle && timeout_ms > 0;
        int n = (int)syscall(SYS_epoll_pwait, fd, events, most, skips ? 0 : timeout_ms, NULL, 0);

        if (skips && n == 0)
                fake_clock_advance_ms((uint64_t)timeout_ms);
        return n;
}

int poll(struct pollfd *fds, unsigned long n, int timeout_ms)
{
        bool skips = skips_idle && timeout_ms > 0;
        int waits_ms = skips ? 0 : timeout_ms;
        struct timespec wait = {.tv_sec = waits_ms / 1000, .tv_nsec = waits_ms % 1000 * 1000000L};
        int ready = (int)syscall(SYS_ppoll, fds, n, waits_ms < 0 ? NULL : &wait, NULL, 0);

        if (skips && ready == 0)
                fake_clock_advance_ms((uint64_t)timeout_ms);
        return ready;
}

int __poll_chk(struct pollfd *fds, unsigned long n, int timeout_ms, size_t size)
{
        (void)size;
        return poll(fds, n, timeout_ms);
}
