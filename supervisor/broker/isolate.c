/*
 * Isolation of the broker.
 *
 * Theory of operation. The monitor has started us in our own user, pid, mount and ipc namespaces,
 * with the few capabilities in that user namespace that the steps below need, and with our monitor
 * socket. The order matters:
 *
 *  1. limits           Must come before the filter, which lets us change none but the number of
 *                      descriptors.
 *  2. our own id       needs CAP_SETUID; must come before the root: what a foreign id makes in a
 *                      tmpfs has no owner there (EOVERFLOW).
 *  3. our own root     (root.c) needs CAP_SYS_ADMIN and the host's paths; must come before
 * Landlock, which forbids to change mounts.
 *  4. no capabilities  of any set, so that nothing above can be undone.
 *  5. no_new_privs     Landlock and seccomp ask for it; not dumpable: nobody of our uid reads our
 *                      memory.
 *  6. Landlock         best effort: what the root leaves, once more; signals and abstract sockets
 *                      stay inside.
 *  7. descriptors      all but the known ones: one that leads out of our root would undo step 3.
 *  8. the filter       last, since it denies most of what the steps above do. No thread exists yet:
 *                      it holds for all that come.
 *
 * 2 to 5 and 8 are required. Without its state directory the broker only forgets more.
 */
#include "supervisor/broker/isolate.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "base/cleanup.h"
#include "base/filter-load.h"
#include "base/landlock.h"
#include "base/log.h"
#include "rpc/monitor-messages.h"
#include "supervisor/broker/root.h"

/* Everything in the root is there for reading; the mounts keep it read-only as well. */
static const struct landlock_rule landlock_rules[] = {
        {"/", LANDLOCK_READ},
        {ROOT_STATE, LANDLOCK_READ | LANDLOCK_CHANGE | LANDLOCK_TRUNCATE},
};

/* A session has five descriptors of ours; 1,024 sessions are more than the usual soft limit. */
static void set_limits(void)
{
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
                files.rlim_cur = files.rlim_max;
                setrlimit(RLIMIT_NOFILE, &files);
        }
        setrlimit(RLIMIT_CORE, &(struct rlimit){1, 1});
}

/* The groups go only where the map lets us, which is where there are foreign ones. */
static int become(const struct isolation *how, struct error *err)
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
        /* Without CAP_SETPCAP the bounding set stays, which no_new_privs makes harmless. */
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

static bool is_kept(const struct isolation *how, int fd, int state_dir)
{
        if (fd <= MONITOR_FD || fd == how->filter_fd || fd == state_dir)
                return true;
        for (size_t i = 0; i < ARRAY_SIZE(how->keep); i++) {
                if (how->keep[i] == fd)
                        return true;
        }
        return false;
}

/* All but the kept ones, in the gaps between them. */
static int close_descriptors(const struct isolation *how, int state_dir, struct error *err)
{
        int highest = MONITOR_FD;

        for (size_t i = 0; i < ARRAY_SIZE(how->keep); i++)
                highest = how->keep[i] > highest ? how->keep[i] : highest;
        highest = how->filter_fd > highest ? how->filter_fd : highest;
        highest = state_dir > highest ? state_dir : highest;
        for (int fd = MONITOR_FD + 1; fd < highest; fd++) {
                if (!is_kept(how, fd, state_dir))
                        close(fd);
        }
        if (syscall(SYS_close_range, highest + 1, ~0U, 0) < 0)
                return error_errno(err, errno, "close descriptors");
        return 0;
}

int broker_isolate(const struct isolation *how, int *state_dir, struct error *err)
{
        _cleanup_close_ int state = -1;
        struct error hint = {};

        set_limits();
        int r = become(how, err);
        if (r >= 0)
                r = root_change(how->state_path, err);
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
        r = close_descriptors(how, state, err);
        if (r >= 0)
                r = filter_load(how->filter_fd, err);
        if (r < 0)
                return r;
        close(how->filter_fd);
        *state_dir = take_fd(state);
        return 0;
}
