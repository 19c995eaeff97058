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
 *  3. root             needs CAP_SYS_ADMIN and the host's paths; before Landlock, which forbids
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
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/filter-load.h"
#include "base/landlock.h"
#include "base/log.h"
#include "base/mount.h"
#include "rpc/monitor-messages.h"
#include "supervisor/hub/cache/cache.h"

#define ROOT_STATE "/state"

/* ---- the root, by the mount API and descriptors ---- */

enum { TMPFS_SIZE = 64 * 1024, TMPFS_INODES = 256 };

/* Directories besides /etc that are bound read-only if they exist. */
static const char *const read_only[] = {
        "/usr/share/ca-certificates",
        "/usr/local/share/ca-certificates",
        "/usr/share/pki",
        "/var/lib/ca-certificates",
        NULL,
};

/*
 * Binds a host directory with its subtree: in another user namespace, the kernel refuses a bind
 * mount that would uncover what is below a mount.
 */
static int bind_directory(int root, const char *source, const char *target, bool writable,
                          struct error *err)
{
        uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
                              (writable ? 0 : MOUNT_ATTR_RDONLY);

        _cleanup_close_ int tree = mount_clone_tree(AT_FDCWD, source, attributes, err);
        int r = tree < 0 ? tree : mount_point_make(root, target + 1, err);
        return r < 0 ? r : mount_attach(tree, root, target + 1, err);
}

static bool is_below(const char *path, const char *directory)
{
        size_t n = strlen(directory);

        return strncmp(path, directory, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* The directory that /etc/resolv.conf links to, unless it is /etc. */
static int bind_resolver(int root, struct error *err)
{
        char path[PATH_MAX];

        if (!realpath("/etc/resolv.conf", path) || is_below(path, "/etc"))
                return 0;
        char *slash = strrchr(path, '/');
        if (slash == path)
                return 0;
        *slash = '\0';
        return bind_directory(root, path, path, false, err);
}

/* The files that libcurl and the resolver read. */
static int bind_network(int root, bool has_certificates, struct error *err)
{
        int r = bind_directory(root, "/etc", "/etc", false, err);

        for (const char *const *path = read_only; has_certificates && *path; path++) {
                if (access(*path, F_OK) == 0)
                        bind_directory(root, *path, *path, false, NULL);
        }
        return r < 0 ? r : bind_resolver(root, err);
}

static int fill(int root, const char *state_path, enum root_network network, struct error *err)
{
        int r = network == ROOT_ALONE ? 0 : bind_network(root, network == ROOT_HTTP, err);

        if (r >= 0 && state_path)
                r = bind_directory(root, state_path, ROOT_STATE, true, err);
        return r;
}

static int pivot(int root, struct error *err)
{
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

        int r = mount_become_root(root, err);
        if (r < 0)
                return error_context(err, "the broker's root");
        if (mount_setattr(AT_FDCWD, "/", 0, &attr, sizeof(attr)) < 0)
                return error_errno(err, errno, "make the broker's root read-only");
        return 0;
}

int isolate_root(const char *state_path, enum root_network network, struct error *err)
{
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return error_errno(err, errno, "make the broker's mounts private");
        _cleanup_close_ int root = mount_tmpfs_new(
                TMPFS_SIZE, TMPFS_INODES, 0755,
                MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, err);
        if (root < 0)
                return root;
        /* Trees can be moved only onto an attached mount. */
        int r = mount_over_root(root, err);
        if (r >= 0)
                r = fill(root, state_path, network, err);
        return r < 0 ? r : pivot(root, err);
}

/* *ret: a descriptor of /state, -1 when state_path is NULL. */
static int root_open_state(const char *state_path, int *ret, struct error *err)
{
        *ret = -1;
        if (!state_path)
                return 0;
        int fd = open(ROOT_STATE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return error_errno(err, errno, "open the state directory %s", state_path);
        *ret = fd;
        return 0;
}

/* ---- the steps ---- */

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

int isolate_become(const struct isolation *how, struct error *err)
{
        return how->has_uid ? capabilities_become(how->uid, err) : 0;
}

static int no_new_privileges(struct error *err)
{
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return error_errno(err, errno, "no_new_privs");
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return error_errno(err, errno, "make the broker non-dumpable");
        return 0;
}

/*
 * ---- the process that writes the cache of tools ----
 *
 * It is forked before the broker reads untrusted bytes, and has the broker's id and filter, and nothing but the
 * cache. Both processes have the same root. The child first takes a mount namespace of its own, in which /state
 * stays writable, and opens the cache; then it gives up what the broker gives up. The parent makes its own /state
 * read-only only after that message.
 */

enum { SOCKET_FD, DIRECTORY_FD, FILTER_FD, FDS };

static int open_cache(void)
{
        _cleanup_close_ int state = -1;
        struct error ignored = {};

        if (unshare(CLONE_NEWNS) < 0 || root_open_state(ROOT_STATE, &state, &ignored) < 0)
                return -EIO;
        return hub_cache_open(state);
}

static _Noreturn void write_cache(int socket, int filter)
{
        static const struct landlock_rule rule = {ROOT_STATE, LANDLOCK_READ | LANDLOCK_CHANGE |
                                                                      LANDLOCK_TRUNCATE};
        struct error ignored = {};
        int dir = open_cache(), fds[FDS] = {socket, dir, filter};

        prctl(PR_SET_NAME, "cloister-cache");
        if (dir < 0 || fd_arrange(fds, FDS) < 0 || capabilities_drop(&ignored) < 0 ||
            no_new_privileges(&ignored) < 0)
                _exit(1);
        landlock_confine(&rule, 1, true, &ignored);
        if (filter_load(FILTER_FD, &ignored) < 0 || write(SOCKET_FD, "", 1) != 1)
                _exit(1);
        close(FILTER_FD);
        cache_writer_serve(SOCKET_FD, DIRECTORY_FD);
        _exit(0);
}

/* Needs CAP_SYS_ADMIN. Afterwards /state is read-only for the caller. Returns the socket, or negative
 * errno: there is no cache then. */
static int start_cache(int filter_fd, struct error *err)
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
                write_cache(theirs, filter_fd);
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

/* ---- descriptors ---- */

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
                r = isolate_root(how->state_path, how->has_http ? ROOT_HTTP : ROOT_ALONE, err);
        if (r >= 0 && how->state_path)
                writer = start_cache(how->filter_fd, &hint);
        if (r >= 0 && how->state_path && writer < 0)
                log_info("nothing is cached: %s", hint.text);
        if (r >= 0)
                r = capabilities_drop(err);
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
