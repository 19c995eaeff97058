/* Giving up capabilities. */
#include "base/capabilities.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int capabilities_keep(uint64_t keep)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct sets[2], now[2];

        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        if (syscall(SYS_capget, &header, sets) < 0)
                return -errno;
        for (int i = 0; i < 2; i++) {
                sets[i].permitted &= (uint32_t)(keep >> (32 * i));
                sets[i].effective = sets[i].permitted;
                sets[i].inheritable = 0;
        }
        if (syscall(SYS_capset, &header, sets) < 0 || syscall(SYS_capget, &header, now) < 0)
                return -errno;
        for (int i = 0; i < 2; i++) {
                if (now[i].permitted != sets[i].permitted ||
                    now[i].effective != sets[i].effective || now[i].inheritable != 0)
                        return -EPERM;
        }
        return 0;
}

bool capabilities_bound(uint64_t keep)
{
        bool all = true;

        for (int cap = 0; cap < 64 && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
                if (!(keep & (UINT64_C(1) << cap)) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
                        all = false;
        }
        return all;
}

int capabilities_drop(struct error *err)
{
        (void)capabilities_bound(0);
        int r = capabilities_keep(0);
        return r < 0 ? error_errno(err, -r, "drop capabilities") : 0;
}

int capabilities_become(uid_t uid, struct error *err)
{
        setgroups(0, NULL);
        if (setresgid(uid, uid, uid) < 0 && getgid() != uid)
                return error_errno(err, errno, "become group %u", uid);
        if (setresuid(uid, uid, uid) < 0)
                return error_errno(err, errno, "become user %u", uid);
        return 0;
}
