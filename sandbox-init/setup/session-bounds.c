/* Resource limits, capabilities and ids of a session. */
#include "sandbox-init/setup/session-bounds.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Never above the current hard limit: raising it needs CAP_SYS_RESOURCE on the host. */
static int limit(int resource, rlim_t most, struct error *err)
{
        struct rlimit now;

        if (getrlimit((__rlimit_resource_t)resource, &now) < 0)
                return error_errno(err, errno, "getrlimit %d", resource);
        if (most > now.rlim_max)
                most = now.rlim_max;
        struct rlimit want = {most, most};
        if (setrlimit((__rlimit_resource_t)resource, &want) < 0)
                return error_errno(err, errno, "setrlimit %d", resource);
        return 0;
}

int bounds_set_limits(const struct session_plan *plan, struct error *err)
{
        const struct limits *l = &plan->limits;
        struct {
                int resource;
                rlim_t most;
        } list[] = {
                {RLIMIT_NOFILE, l->open_files},
                {RLIMIT_MEMLOCK, 8UL * 1024 * 1024},
                {RLIMIT_MSGQUEUE, 0},
                {RLIMIT_SIGPENDING, 256},
                {RLIMIT_NICE, 0},
                {RLIMIT_RTPRIO, 0},
                {RLIMIT_NPROC, plan->rlimits ? l->pids : RLIM_INFINITY},
                {RLIMIT_DATA, plan->rlimits ? l->memory : RLIM_INFINITY},
        };
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(list); i++)
                r = limit(list[i].resource, list[i].most, err);
        return r;
}

/* All of /proc/sys/user but max_mnt_namespaces; a test compares them with the kernel's. */
static const struct {
        const char *name, *most;
        bool is_optional; /* kernels without inotify or fanotify have no such file */
} user_limits[] = {
        {"max_user_namespaces", "0", false},   {"max_pid_namespaces", "0", false},
        {"max_net_namespaces", "0", false},    {"max_ipc_namespaces", "0", false},
        {"max_uts_namespaces", "0", false},    {"max_time_namespaces", "0", false},
        {"max_cgroup_namespaces", "0", false}, {"max_inotify_instances", "0", true},
        {"max_inotify_watches", "0", true},    {"max_fanotify_groups", "0", true},
        {"max_fanotify_marks", "0", true},
};

int bounds_limit_user(int *mounts, struct error *err)
{
        _cleanup_close_ int user = open("/proc/sys/user", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (user < 0)
                return error_errno(err, errno, "open /proc/sys/user");
        for (size_t i = 0; i < ARRAY_SIZE(user_limits); i++) {
                _cleanup_close_ int fd = openat(user, user_limits[i].name, O_WRONLY | O_CLOEXEC);
                if (fd < 0 && errno == ENOENT && user_limits[i].is_optional)
                        continue;
                size_t n = strlen(user_limits[i].most);
                if (fd < 0 || write(fd, user_limits[i].most, n) != (ssize_t)n)
                        return error_errno(err, errno, "set %s", user_limits[i].name);
        }
        *mounts = openat(user, "max_mnt_namespaces", O_WRONLY | O_CLOEXEC);
        return *mounts < 0 ? error_errno(err, errno, "open max_mnt_namespaces") : 0;
}

int bounds_drop_capabilities(struct error *err)
{
        const unsigned long locked = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                                     SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                                     SECBIT_NO_CAP_AMBIENT_RAISE |
                                     SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;

        if (prctl(PR_SET_SECUREBITS, locked) < 0)
                return error_errno(err, errno, "lock securebits");
        int capability = 0;
        while (prctl(PR_CAPBSET_DROP, capability) == 0)
                capability++;
        /* EINVAL: the kernel's last capability was dropped. */
        if (errno != EINVAL || capability == 0)
                return error_errno(err, errno, "drop capability %d", capability);
        return 0;
}

/* Raw system calls: libc's functions would signal the other threads, and there are none. */
int bounds_become_user(struct error *err)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct none[2] = {};

        if (syscall(SYS_setresgid, SANDBOX_UID, SANDBOX_UID, SANDBOX_UID) < 0 ||
            syscall(SYS_setresuid, SANDBOX_UID, SANDBOX_UID, SANDBOX_UID) < 0)
                return error_errno(err, errno, "become uid %d", SANDBOX_UID);
        if (syscall(SYS_capset, &header, none) < 0)
                return error_errno(err, errno, "capset");
        /* The change of ids cleared it. A worker that is not dumpable cannot open /dev/stdout. */
        if (prctl(PR_SET_DUMPABLE, 1) < 0)
                return error_errno(err, errno, "stay dumpable");
        return 0;
}
