/* Landlock by raw system calls. */
#include "base/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

/* The rights that each ABI version added. */
enum {
        FS_ABI_1 = (1 << 13) - 1,
        FS_ABI_2 = 1 << 13, /* refer */
        FS_ABI_3 = LANDLOCK_TRUNCATE,
        NET_ABI_4 = 3, /* TCP: bind, connect */
        FS_ABI_5 = LANDLOCK_DEVICE_IOCTL,
        SCOPED_ABI_6 = 3, /* abstract sockets, signals */
};

/* struct landlock_ruleset_attr as of ABI 6; the kernel also accepts the shorter ones of earlier ABIs. */
struct ruleset {
        uint64_t fs, net, scoped;
};

static size_t ruleset_for(int abi, bool network, struct ruleset *ret)
{
        *ret = (struct ruleset){.fs = FS_ABI_1};
        if (abi >= 2)
                ret->fs |= FS_ABI_2;
        if (abi >= 3)
                ret->fs |= FS_ABI_3;
        if (abi >= 4 && !network)
                ret->net = NET_ABI_4;
        if (abi >= 5)
                ret->fs |= FS_ABI_5;
        if (abi >= 6)
                ret->scoped = SCOPED_ABI_6;
        return abi >= 6   ? sizeof(*ret)
               : abi >= 4 ? offsetof(struct ruleset, scoped)
                          : offsetof(struct ruleset, net);
}

static int add_rule(int ruleset, const char *path, uint64_t rights, struct error *err)
{
        _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT)
                return 0;
        if (fd < 0)
                return error_errno(err, errno, "landlock: open %s", path);

        struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};
        if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
                return error_errno(err, errno, "landlock: rule for %s", path);
        return 0;
}

int landlock_confine(const struct landlock_rule *rules, size_t n, bool network, struct error *err)
{
        int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0,
                               LANDLOCK_CREATE_RULESET_VERSION);
        if (abi <= 0)
                return 0;

        struct ruleset attr;
        size_t size = ruleset_for(abi, network, &attr);
        _cleanup_close_ int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
        if (ruleset < 0)
                return error_errno(err, errno, "landlock: ruleset of ABI %d", abi);
        for (size_t i = 0; i < n; i++) {
                int r = add_rule(ruleset, rules[i].path, rules[i].rights & attr.fs, err);
                if (r < 0)
                        return r;
        }
        if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
                return error_errno(err, errno, "landlock: restrict");
        return abi;
}
