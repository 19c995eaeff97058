/*
 * Isolation of the broker.
 *
 * Theory of operation. The monitor has started the broker in its own user, pid, mount and ipc
 * namespaces, with the few capabilities in that user namespace that the steps below need, and with
 * a socket to the monitor. The order matters:
 *
 *  1. limits           before the filter, which allows changing only the number of descriptors
 *  2. id               needs CAP_SETUID; before the root, because creating files in a tmpfs with an
 *                      unmapped id fails with EOVERFLOW
 *  3. root (root.c)    needs CAP_SYS_ADMIN and the host's paths; before Landlock, which forbids
 *                      changes of mounts
 *     the cache       its writer is a separate process; needs CAP_SYS_ADMIN
 *  4. no capabilities  in any set, so that the steps above cannot be undone
 *  5. no_new_privs     Landlock and seccomp require it; not dumpable, so that processes with the
 *                      same uid cannot read the broker's memory
 *  6. Landlock         best effort: limits access to what the root contains, and signals and
 *                      abstract sockets to the broker itself
 *  7. descriptors      closes all except the known ones: a directory outside the root would undo 3
 *  8. filter           last, because it denies most of the steps above. No thread exists yet, so
 *                      it applies to all later ones.
 *
 * Steps 2 to 5 and 8 are required. Without a state directory the broker only has no cache.
 */
#include "supervisor/broker/isolate.h"

#include <errno.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/filter-load.h"
#include "base/landlock.h"
#include "base/log.h"
#include "rpc/monitor-messages.h"
#include "supervisor/broker/cache-process.h"
#include "supervisor/broker/root.h"

/* Everything in the root may be read; the mounts are read-only besides. */
static const struct landlock_rule landlock_rules[] = {
        {"/", LANDLOCK_READ},
};

/* A session needs five descriptors: 1,024 sessions need more than the usual soft limit. */
void isolate_limits(void)
{
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
                files.rlim_cur = files.rlim_max;
                setrlimit(RLIMIT_NOFILE, &files);
        }
        setrlimit(RLIMIT_CORE, &(struct rlimit){1, 1});
}

/* setgroups() is allowed only where the id map permits it, which is where there are other groups.
 */
int isolate_become(const struct isolation *how, struct error *err)
{
        if (!how->has_uid)
                return 0;
        setgroups(0, NULL);
        if (setresgid(how->uid, how->uid, how->uid) < 0 && getgid() != how->uid)
                return error_errno(err, errno, "become group %u", how->uid);
        if (setresuid(how->uid, how->uid, how->uid) < 0)
                return error_errno(err, errno, "become user %u", how->uid);
        return 0;
}

static int drop_capabilities(struct error *err)
{
        /* Without CAP_SETPCAP the bounding set stays; with no_new_privs it has no effect. */
        (void)capabilities_bound(0);
        int r = capabilities_keep(0);
        return r < 0 ? error_errno(err, -r, "drop capabilities") : 0;
}

static int no_new_privileges(struct error *err)
{
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return error_errno(err, errno, "no_new_privs");
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return error_errno(err, errno, "make the broker non-dumpable");
        return 0;
}

static bool is_kept(const struct isolation *how, int fd, const int state[2])
{
        if (fd <= MONITOR_FD || fd == how->filter_fd || fd == state[0] || fd == state[1])
                return true;
        for (size_t i = 0; i < ARRAY_SIZE(how->keep); i++) {
                if (how->keep[i] == fd)
                        return true;
        }
        return false;
}

/* Closes the gaps between the kept ones. */
static int close_descriptors(const struct isolation *how, const int state[2], struct error *err)
{
        int highest = MONITOR_FD;

        for (size_t i = 0; i < ARRAY_SIZE(how->keep); i++)
                highest = how->keep[i] > highest ? how->keep[i] : highest;
        highest = how->filter_fd > highest ? how->filter_fd : highest;
        for (int i = 0; i < 2; i++)
                highest = state[i] > highest ? state[i] : highest;
        for (int fd = MONITOR_FD + 1; fd < highest; fd++) {
                if (!is_kept(how, fd, state))
                        close(fd);
        }
        int r = fd_close_range((unsigned int)highest + 1, ~0U);
        return r < 0 ? error_errno(err, -r, "close descriptors") : 0;
}

int broker_isolate(const struct isolation *how, int *state_dir, int *cache, struct error *err)
{
        _cleanup_close_ int state = -1, writer = -1;
        struct error hint = {};

        isolate_limits();
        int r = isolate_become(how, err);
        if (r >= 0)
                r = root_change(how->state_path, how->has_http ? ROOT_HTTP : ROOT_ALONE, err);
        if (r >= 0 && how->state_path)
                writer = cache_process_start(how->filter_fd, &hint);
        if (r >= 0 && how->state_path && writer < 0)
                log_info("nothing is cached: %s", hint.text);
        if (r >= 0)
                r = drop_capabilities(err);
        if (r >= 0)
                r = no_new_privileges(err);
        if (r < 0)
                return r;
        if (root_open_state(how->state_path, &state, &hint) < 0)
                log_info("nothing is cached: %s", hint.text);
        if (landlock_confine(landlock_rules, ARRAY_SIZE(landlock_rules), true, &hint) < 0)
                log_info("without Landlock: %s", hint.text);
        r = close_descriptors(how, (const int[]){state, writer}, err);
        if (r >= 0)
                r = filter_load(how->filter_fd, err);
        if (r < 0)
                return r;
        close(how->filter_fd);
        *state_dir = take_fd(state);
        *cache = take_fd(writer);
        return 0;
}
