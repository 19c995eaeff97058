/*
 * Starts the process that writes the cache.
 *
 * Theory of operation. Both processes have the same root. The child first takes a mount namespace of its
 * own, in which /state stays writable, and opens the cache; then it gives up what the broker gives up.
 * The parent makes its own /state read-only only after that message.
 */
#include "supervisor/broker/cache-process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/filter-load.h"
#include "base/landlock.h"
#include "supervisor/broker/root.h"
#include "supervisor/hub/cache/cache.h"

enum { SOCKET_FD, DIRECTORY_FD, FILTER_FD, HIGH_FD = 100 };

static const struct landlock_rule landlock_rules[] = {
        {ROOT_STATE, LANDLOCK_READ | LANDLOCK_CHANGE | LANDLOCK_TRUNCATE},
};

static int open_cache(void)
{
        _cleanup_close_ int state = -1;
        struct error ignored = {};

        if (unshare(CLONE_NEWNS) < 0 || root_open_state(ROOT_STATE, &state, &ignored) < 0)
                return -EIO;
        return hub_cache_open(state);
}

/* Only the three descriptors remain. */
static bool place(int socket, int dir, int filter)
{
        int high[] = {fcntl(socket, F_DUPFD, HIGH_FD), fcntl(dir, F_DUPFD, HIGH_FD),
                      fcntl(filter, F_DUPFD, HIGH_FD)};

        return dup2(high[0], SOCKET_FD) == SOCKET_FD &&
               dup2(high[1], DIRECTORY_FD) == DIRECTORY_FD &&
               dup2(high[2], FILTER_FD) == FILTER_FD && fd_close_range(FILTER_FD + 1, ~0U) >= 0;
}

static _Noreturn void run(int socket, int filter)
{
        struct error ignored = {};
        int dir = open_cache();

        prctl(PR_SET_NAME, "cloister-cache");
        if (dir < 0 || !place(socket, dir, filter))
                _exit(1);
        (void)capabilities_bound(0);
        if (capabilities_keep(0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                _exit(1);
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        landlock_confine(landlock_rules, 1, true, &ignored);
        if (filter_load(FILTER_FD, &ignored) < 0 || write(SOCKET_FD, "", 1) != 1)
                _exit(1);
        close(FILTER_FD);
        cache_writer_serve(SOCKET_FD, DIRECTORY_FD);
        _exit(0);
}

int cache_process_start(int filter_fd, struct error *err)
{
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
        int pair[2];
        char ready;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_errno(err, errno, "cache: socketpair");
        _cleanup_close_ int ours = pair[0];
        _cleanup_close_ int theirs = pair[1];
        pid_t pid = fork();
        if (pid == 0) {
                close(ours);
                run(theirs, filter_fd);
        }
        cleanup_close(&theirs);
        theirs = -1;
        bool is_ready = pid > 0 && read(ours, &ready, 1) == 1;
        if (mount_setattr(AT_FDCWD, ROOT_STATE, AT_RECURSIVE, &attr, sizeof(attr)) < 0)
                return error_errno(err, errno, "make " ROOT_STATE " read-only");
        if (!is_ready)
                return error_set(err, ECHILD, "the process that writes the cache did not start");
        return take_fd(ours);
}
