/* Landlock by raw system calls: the C library has no wrappers, and older headers know only older
 * versions. */
#include "supervisor/broker/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "supervisor/broker/root.h"

/* As of version 6 (Documentation/userspace-api/landlock.rst); the kernel takes as much of it as it
 * knows. */
struct ruleset {
        uint64_t fs, net, scoped;
};

enum {
        FS_VERSION_1 = 0x1fff,
        FS_REFER = 1 << 13,    /* version 2 */
        FS_TRUNCATE = 1 << 14, /* version 3 */
        FS_IOCTL = 1 << 15,    /* version 5 */
        SCOPED = 3,            /* version 6: abstract sockets, signals */

        READ = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
        CHANGE = READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                 LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                 LANDLOCK_ACCESS_FS_MAKE_DIR | FS_TRUNCATE,
};

static struct ruleset rights_of(long version)
{
        struct ruleset rights = {.fs = FS_VERSION_1};

        if (version >= 2)
                rights.fs |= FS_REFER;
        if (version >= 3)
                rights.fs |= FS_TRUNCATE;
        if (version >= 5)
                rights.fs |= FS_IOCTL;
        if (version >= 6)
                rights.scoped = SCOPED;
        return rights;
}

/* A path that is not there needs no rule. */
static int allow(int ruleset, const char *path, uint64_t rights)
{
        _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
        struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};

        if (fd < 0)
                return 0;
        long r = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
        return r < 0 ? -errno : 0;
}

int landlock_apply(struct error *err)
{
        long version = syscall(SYS_landlock_create_ruleset, NULL, 0,
                               LANDLOCK_CREATE_RULESET_VERSION);
        if (version < 0)
                return error_errno(err, errno, "Landlock");

        struct ruleset rights = rights_of(version);
        size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
        _cleanup_close_ int ruleset = (int)syscall(SYS_landlock_create_ruleset, &rights, size, 0);
        if (ruleset < 0)
                return error_errno(err, errno, "Landlock ruleset");
        /* Everything in the root is there for reading; the mounts keep it read-only as well. */
        int r = allow(ruleset, "/", READ);
        if (r >= 0)
                r = allow(ruleset, ROOT_STATE, CHANGE & rights.fs);
        if (r < 0)
                return error_errno(err, -r, "Landlock rule");
        if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
                return error_errno(err, errno, "Landlock");
        return 0;
}
