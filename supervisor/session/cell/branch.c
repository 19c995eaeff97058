/* Passes bytes from one worker to another. */
#include "supervisor/session/cell/branch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/loop.h"
#include "base/share.h"
#include "supervisor/session/cell/session-name.h"

enum { AT_ONCE = 64 * 1024 }; /* what a pipe holds */

static struct branch *all[BRANCHES_MAX]; /* NULL: free */

/* Several principals share the places: code can keep a branch from ending for BRANCH_MS. Returns one. */
static int find_place(const char *from, struct branch ***ret, struct error *err)
{
        size_t n = 0, n_own = 0;
        bool several = session_key_name(from) != from;

        for (size_t i = 0; i < BRANCHES_MAX; i++) {
                if (!all[i])
                        *ret = &all[i];
                n += all[i] != NULL;
                n_own += all[i] && session_key_is_beside(all[i]->from, from);
        }
        if (several ? share_allows(n_own, n, BRANCHES_MAX, 1) : n < BRANCHES_MAX)
                return 0;
        if (n_own > 0 && several)
                return error_set(err, EBUSY, "%zu of your branches are being made: try again",
                                 n_own);
        return error_set(err, EBUSY, "%d branches are being made: try again", BRANCHES_MAX);
}

int branch_new(struct branch **ret, struct event_base *base, const char *from, uint64_t copy,
               const char *checkpoint, struct error *err)
{
        struct branch **place = NULL;

        int r = find_place(from, &place, err);
        if (r < 0)
                return r;
        struct branch *branch = calloc(1, sizeof(*branch));
        if (!branch)
                return error_errno(err, ENOMEM, "branch");
        branch->refs = 1;
        branch->base = base;
        branch->copy = copy;
        snprintf(branch->checkpoint, sizeof(branch->checkpoint), "%s", checkpoint);
        branch->in = branch->out = branch->writer = -1;
        snprintf(branch->from, sizeof(branch->from), "%s", from);
        *place = branch;
        *ret = branch;
        return 0;
}

struct branch *branch_ref(struct branch *branch)
{
        branch->refs++;
        return branch;
}

static void close_end(int *fd)
{
        if (*fd >= 0)
                close(*fd);
        *fd = -1;
}

void branch_end(struct branch *branch)
{
        loop_event_free(&branch->readable);
        loop_event_free(&branch->writable);
        loop_event_free(&branch->late);
        close_end(&branch->in);
        close_end(&branch->out);
        close_end(&branch->writer);
        buffer_done(&branch->passing);
}

struct branch *branch_unref(struct branch *branch)
{
        if (!branch || --branch->refs > 0)
                return NULL;
        branch_end(branch);
        for (size_t i = 0; i < BRANCHES_MAX; i++)
                if (all[i] == branch)
                        all[i] = NULL;
        free(branch);
        return NULL;
}

void branch_writer_sent(struct branch *branch)
{
        close_end(&branch->writer);
}

void branch_fail(struct branch *branch, const char *why)
{
        if (branch->why[0] == '\0')
                snprintf(branch->why, sizeof(branch->why), "%s", why);
        branch_end(branch);
}

/* Writes what was read. Nothing is read while some of it remains. */
static void write_some(struct branch *branch)
{
        int r = buffer_write_fd(&branch->passing, branch->out);

        if (r < 0) {
                /* The reason is that worker's to tell. */
                branch_end(branch);
        } else if (r == 0) {
                event_del(branch->readable);
                event_add(branch->writable, NULL);
        } else {
                event_del(branch->writable);
                event_add(branch->readable, NULL);
        }
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
        struct branch *branch = data;

        ssize_t n = buffer_read_fd(&branch->passing, fd, AT_ONCE);
        if (n == -EINTR || n == -EAGAIN)
                return;
        if (n <= 0) {
                branch_end(branch);
                return;
        }
        if ((uint64_t)n > branch->left) {
                branch_fail(branch, "it is larger than its limits allow");
                return;
        }
        branch->left -= (uint64_t)n;
        write_some(branch);
}

static void on_writable(evutil_socket_t fd, short what, void *data)
{
        write_some(data);
}

static void on_late(evutil_socket_t fd, short what, void *data)
{
        ((struct branch *)data)->was_late = true;
        branch_fail(data, "it took longer than 30 s");
}
_Static_assert(BRANCH_MS == 30000, "on_late() says so");

static int make_pipes(struct branch *branch, int *reader)
{
        int from[2], to[2];

        if (pipe2(from, O_CLOEXEC) < 0)
                return -errno;
        branch->in = from[0];
        branch->writer = from[1];
        if (pipe2(to, O_CLOEXEC) < 0)
                return -errno;
        *reader = to[0];
        branch->out = to[1];
        int r = fd_set_nonblocking(branch->in, 1);
        return r < 0 ? r : fd_set_nonblocking(branch->out, 1);
}

int branch_start(struct branch *branch, uint64_t most, int *reader, struct error *err)
{
        const struct timeval in = clock_timeval_ms(BRANCH_MS);

        *reader = -1;
        branch->left = most;
        buffer_init(&branch->passing, AT_ONCE);
        int r = buffer_reserve(&branch->passing, AT_ONCE);
        if (r >= 0)
                r = make_pipes(branch, reader);
        if (r >= 0) {
                branch->readable = event_new(branch->base, branch->in, EV_READ | EV_PERSIST,
                                             on_readable, branch);
                branch->writable = event_new(branch->base, branch->out, EV_WRITE | EV_PERSIST,
                                             on_writable, branch);
                branch->late = evtimer_new(branch->base, on_late, branch);
                if (!branch->readable || !branch->writable || !branch->late)
                        r = -ENOMEM;
        }
        if (r < 0) {
                close_end(reader);
                branch_end(branch);
                return error_errno(err, -r, "pipes of a branch");
        }
        event_add(branch->readable, NULL);
        event_add(branch->late, &in);
        return 0;
}
