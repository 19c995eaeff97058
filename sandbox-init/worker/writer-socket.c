/*
 * The writer socket of a checkpoint.
 *
 * Theory of operation. The copy waits in ppoll() for the socket and a signalfd. All signals stay blocked, and are
 * taken by rt_sigtimedwait() as in every copy (copy.c). A signal from init is handled before any request, and ends
 * a writer, so that the copy is alone when it becomes the worker.
 *
 * A request is one byte with a descriptor. The writer is made as a copy is: libc has its thread id,
 * which its dump must contain (branch.c), and it is a child of init, which reaps it also while this process is stopped:
 * init waits until no process is left but copies.
 */
#include "sandbox-init/worker/writer-socket.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include "sandbox-init/raw.h"

static void close_both(struct writer_socket *socket)
{
        if (socket->fd >= 0)
                raw_call(SYS_close, socket->fd, 0, 0, 0, 0, 0);
        if (socket->signals >= 0)
                raw_call(SYS_close, socket->signals, 0, 0, 0, 0, 0);
        socket->fd = socket->signals = -1;
}

/* Returns a descriptor, -EPIPE at the end, -EAGAIN: nothing has come, or its descriptor was lost. */
static int take_request(const struct writer_socket *socket)
{
        union {
                char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(3 * sizeof(int))];
                struct cmsghdr align;
        } control;
        char byte;
        struct iovec part = {.iov_base = &byte, .iov_len = 1};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof(control.bytes)};
        int fd = -EAGAIN;

        long n = raw_call(SYS_recvmsg, socket->fd, raw_pointer(&message),
                          MSG_DONTWAIT | MSG_CMSG_CLOEXEC, 0, 0, 0);
        if (n == 0 || (n < 0 && n != -EAGAIN && n != -EINTR))
                return -EPIPE;
        if (n < 0)
                return -EAGAIN;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
                if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
                        __builtin_memcpy(&fd, CMSG_DATA(c), sizeof(fd));
        }
        return fd;
}

static void close_writer(struct writer_socket *socket)
{
        if (socket->writer >= 0)
                raw_call(SYS_close, socket->writer, 0, 0, 0, 0, 0);
        socket->writer = -1;
}

/* init reaps it. */
static bool has_ended(const struct writer_socket *socket, const void *time)
{
        struct pollfd p = {.fd = socket->writer, .events = POLLIN};

        return raw_call(SYS_ppoll, raw_pointer(&p), 1, raw_pointer(time), 0, 0, 0) == 1;
}

static bool has_writer(struct writer_socket *socket)
{
        struct {
                int64_t seconds, nanoseconds;
        } now = {0};

        if (socket->writer >= 0 && has_ended(socket, &now))
                close_writer(socket);
        return socket->writer >= 0;
}

static void end_writer(struct writer_socket *socket)
{
        if (socket->writer < 0)
                return;
        raw_call(SYS_pidfd_send_signal, socket->writer, SIGKILL, 0, 0, 0, 0);
        while (!has_ended(socket, NULL))
                ;
        close_writer(socket);
}

static void wait_for_something(const struct writer_socket *socket)
{
        struct pollfd p[] = {
                {.fd = socket->signals, .events = POLLIN},
                {.fd = socket->writer >= 0 ? socket->writer : socket->fd, .events = POLLIN},
        };

        raw_call(SYS_ppoll, raw_pointer(p), 2, 0, 0, 0, 0);
}

/* In place of files (archive.py): why there is no branch. */
static void refuse(int fd, const char *why)
{
        struct __attribute__((packed)) {
                uint64_t device, inode;
                char kind;
                uint16_t length;
                uint32_t mode;
                uint64_t size;
                int64_t time;
                uint64_t number;
        } head = {.kind = 'x', .length = (uint16_t)strlen(why)};

        raw_call(SYS_write, fd, raw_pointer(&head), sizeof(head), 0, 0, 0);
        raw_call(SYS_write, fd, raw_pointer(why), head.length, 0, 0, 0);
}

/* Returns whether this is the writer. Without a pidfd it could not be ended in time. */
static bool fork_writer(struct writer_socket *socket, const struct writer_socket_hooks *hooks,
                        int to)
{
        long pid = hooks->make_writer();

        if (pid == 0)
                return true;
        if (pid > 0)
                socket->writer = (int)raw_call(SYS_pidfd_open, pid, 0, 0, 0, 0, 0);
        if (pid > 0 && socket->writer < 0)
                raw_call(SYS_kill, pid, SIGKILL, 0, 0, 0, 0);
        if (socket->writer < 0)
                refuse(to, "limits.pids allows no more processes");
        return false;
}

/* Returns the descriptor in the writer, else -1. */
static int serve(struct writer_socket *socket, const struct writer_socket_hooks *hooks)
{
        int to = take_request(socket);

        if (to == -EPIPE) {
                raw_call(SYS_close, socket->fd, 0, 0, 0, 0, 0);
                socket->fd = -1;
        }
        if (to < 0)
                return -1;
        if (fork_writer(socket, hooks, to)) {
                close_both(socket);
                return to;
        }
        raw_call(SYS_close, to, 0, 0, 0, 0, 0);
        return -1;
}

int writer_socket_wait(struct writer_socket *socket, int signal,
                       const struct writer_socket_hooks *hooks)
{
        const raw_signals set = 1ULL << (signal - 1);

        socket->writer = -1;
        socket->signals = (int)raw_call(SYS_signalfd4, -1, raw_pointer(&set), sizeof(set),
                                        SFD_CLOEXEC | SFD_NONBLOCK, 0, 0);
        if (socket->signals < 0)
                close_both(socket);
        while (!hooks->is_over()) {
                if (socket->fd >= 0 && !has_writer(socket)) {
                        int to = serve(socket, hooks);
                        if (to >= 0)
                                return to;
                }
                wait_for_something(socket);
        }
        end_writer(socket);
        close_both(socket);
        return -1;
}
