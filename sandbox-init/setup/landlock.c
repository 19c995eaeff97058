/* Landlock: the worker's view of the file system, again, by another mechanism. */
#include "sandbox-init/setup/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

/* The rights of each ABI as in Documentation/userspace-api/landlock.rst; headers may be older than the kernel. */
enum {
        FS_EXECUTE = 1 << 0,
        FS_WRITE_FILE = 1 << 1,
        FS_READ_FILE = 1 << 2,
        FS_READ_DIR = 1 << 3,
        FS_ABI1 = (1 << 13) - 1,
        FS_REFER = 1 << 13,     /* ABI 2 */
        FS_TRUNCATE = 1 << 14,  /* ABI 3 */
        FS_IOCTL_DEV = 1 << 15, /* ABI 5 */
        NET_TCP = 3,            /* ABI 4: bind, connect */
        SCOPE_ALL = 3,          /* ABI 6: abstract unix sockets, signals */
};

/* struct landlock_ruleset_attr as of ABI 6; the kernel takes any shorter size. */
struct ruleset {
        uint64_t fs;
        uint64_t net;
        uint64_t scoped;
};

static const struct {
        const char *path;
        uint64_t rights;
} rules[] = {
        {"/", FS_EXECUTE | FS_READ_FILE | FS_READ_DIR},
        {"/dev", FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV},
        {"/proc", FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE},
        {"/dev/shm", UINT64_MAX},
        {"/tmp", UINT64_MAX},
        {"/workspace", UINT64_MAX},
};

static size_t ruleset_for(int abi, struct ruleset *ret)
{
        *ret = (struct ruleset){.fs = FS_ABI1};
        if (abi >= 2)
                ret->fs |= FS_REFER;
        if (abi >= 3)
                ret->fs |= FS_TRUNCATE;
        if (abi >= 5)
                ret->fs |= FS_IOCTL_DEV;
        if (abi >= 4)
                ret->net = NET_TCP;
        if (abi >= 6)
                ret->scoped = SCOPE_ALL;
        return abi >= 6   ? sizeof(*ret)
               : abi >= 4 ? offsetof(struct ruleset, scoped)
                          : offsetof(struct ruleset, net);
}

static int add_rule(int ruleset, const char *path, uint64_t rights, struct error *err)
{
        _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
        if (fd < 0)
                return error_errno(err, errno, "landlock: open %s", path);

        struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};
        if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
                return error_errno(err, errno, "landlock: rule for %s", path);
        return 0;
}

int landlock_confine(struct error *err)
{
        int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
        if (abi <= 0)
                return 0;

        struct ruleset attr;
        size_t size = ruleset_for(abi, &attr);
        _cleanup_close_ int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
        if (ruleset < 0)
                return error_errno(err, errno, "landlock: ruleset of ABI %d", abi);
        for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
                int r = add_rule(ruleset, rules[i].path, rules[i].rights & attr.fs, err);
                if (r < 0)
                        return r;
        }
        if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
                return error_errno(err, errno, "landlock: restrict");
        return abi;
}
