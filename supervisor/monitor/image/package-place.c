/* The directory of a profile's packages in the store. */
#include "supervisor/monitor/image/package-place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "policy/package-set.h"

/* Sandboxes enter it with their own ids, or with the owner's, who therefore cannot list it either. */
enum { FLAGS = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, MODE_ABOVE = 0711, MODE_SETS = 0311 };

void package_place_path(const char *profile, char *to, size_t size)
{
        snprintf(to, size, PACKAGES_INSTALLED "/%s/" PACKAGES_SETS, profile);
}

static int enter(int parent, const char *name, mode_t mode, struct error *err)
{
        if (mkdirat(parent, name, mode) < 0) {
                if (errno != EEXIST)
                        return error_errno(err, errno, "make %s", name);
        } else if (fchmodat(parent, name, mode, 0) < 0) {
                return error_errno(err, errno, "mode of %s", name); /* which the umask has cut */
        }
        int fd = openat(parent, name, FLAGS);
        return fd < 0 ? error_errno(err, errno, "%s", name) : fd;
}

int package_place_open(int store, const char *profile, struct error *err)
{
        _cleanup_close_ int all = enter(store, PACKAGES_INSTALLED, MODE_ABOVE, err);
        if (all < 0)
                return error_context(err, "image store");
        _cleanup_close_ int own = enter(all, profile, MODE_ABOVE, err);
        if (own < 0)
                return error_context(err, "image store: " PACKAGES_INSTALLED);
        int sets = enter(own, PACKAGES_SETS, MODE_SETS, err);
        return sets < 0 ? error_context(err, "packages of profile \"%s\"", profile) : sets;
}
