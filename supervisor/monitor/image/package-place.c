/* The directory of a profile's packages in the store. */
#include "supervisor/monitor/image/package-place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "policy/package-set.h"

enum { START_DOUBT_SECONDS = 60 }; /* a clock that is set back a little */

/* Sandboxes enter it with their own ids, or with the owner's, who therefore cannot list it either. */
enum { FLAGS = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, MODE_ABOVE = 0711, MODE_SETS = 0311 };

void package_place_path(const char *profile, char *to, size_t size)
{
        snprintf(to, size, PACKAGES_INSTALLED "/%s/" PACKAGES_SETS, profile);
}

void package_place_lock_path(const char *profile, char *to, size_t size)
{
        snprintf(to, size, PACKAGES_INSTALLED "/%s/" PACKAGES_USE, profile);
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

/* The lock belongs to the open file, and outlives this process with it. No other user can open the file. */
static int lock_use(int own, struct error *err)
{
        struct flock shared = {.l_type = F_RDLCK,
                               .l_whence = SEEK_SET,
                               .l_start = time(NULL) - START_DOUBT_SECONDS,
                               .l_len = 1};
        struct stat st;

        _cleanup_close_ int fd = openat(
                own, PACKAGES_USE, O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_errno(err, errno, PACKAGES_USE);
        if (!S_ISREG(st.st_mode))
                return error_set(err, EINVAL, PACKAGES_USE ": not a regular file");
        if (fcntl(fd, F_OFD_SETLK, &shared) < 0)
                return error_errno(err, errno, PACKAGES_USE ": lock");
        return take_fd(fd);
}

int package_place_open(int store, const char *profile, int *lock, struct error *err)
{
        _cleanup_close_ int all = enter(store, PACKAGES_INSTALLED, MODE_ABOVE, err);
        if (all < 0)
                return error_context(err, "image store");
        _cleanup_close_ int own = enter(all, profile, MODE_ABOVE, err);
        if (own < 0)
                return error_context(err, "image store: " PACKAGES_INSTALLED);
        _cleanup_close_ int sets = enter(own, PACKAGES_SETS, MODE_SETS, err);
        int used = sets < 0 ? sets : lock_use(own, err);
        if (used < 0)
                return error_context(err, "packages of profile \"%s\"", profile);
        *lock = used;
        return take_fd(sets);
}
