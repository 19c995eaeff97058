/*
 * The doors of checkpoints: sockets on which the broker asks their sleeping processes to write themselves for
 * branches (docs/branches.md). The broker has one end, the process the other; the broker never reads.
 *
 * A request that is not read is a descriptor in flight, which counts for the broker: a door at which a branch has
 * waited too long is closed, so that no more than BRANCHES_MAX wait there.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/session/session-internal.h"

void session_close_door(struct session_copy *copy)
{
        if (copy->has_door)
                close(copy->door);
        copy->has_door = false;
}

static int make_door(int ends[2])
{
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return -errno;
        if (shutdown(ends[0], SHUT_RD) == 0)
                return 0;
        int r = -errno;
        fd_close_many(ends, 2);
        return r;
}

void session_send_door(struct session *s, struct session_copy *asked)
{
        int ends[2];

        if (make_door(ends) < 0)
                return;
        _cleanup_close_ int theirs = ends[1];
        asked->door = ends[0];
        asked->has_door = true;
        if (channel_send_fd(&s->channel, FRAME_WRITER, asked->id, theirs) < 0)
                session_close_door(asked);
}

int session_ask_to_write(struct session_copy *copy, int fd, struct error *err)
{
        if (!copy->has_door)
                return error_set(err, ENOTCONN,
                                 "its process does not answer: a restore makes another one");
        int r = fd_send(copy->door, "", 1, &fd, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (r == -EPIPE || r == -ECONNRESET)
                return error_set(err, -r, "its process has ended");
        if (r < 0)
                return error_set(err, -r, "its process does not read");
        return 0;
}
