/* Finds the executables of Cloister. */
#include "base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cloister-config.h"

static int try_path(const char *directory, const char *name, char *ret, size_t size)
{
        if ((size_t)snprintf(ret, size, "%s/%s", directory, name) >= size)
                return -ENAMETOOLONG;
        return access(ret, X_OK) < 0 ? -errno : 0;
}

/* Neither call gives such an error for a path. */
static bool is_refused(int code)
{
        return code == EPERM || code == ENOSYS || code == EINVAL;
}

static int refuse(const char *call, int code, struct error *err)
{
        return error_set(
                err, code,
                "a seccomp filter around this process refuses %s (%s), without which Cloister does not find its own programs",
                call, strerrorname_np(code));
}

static int try_relative(const char *from, const char *to, const char *name, char *ret, size_t size)
{
        char directory[PATH_MAX];

        if ((size_t)snprintf(directory, sizeof(directory), "%s/%s", from, to) >= sizeof(directory))
                return -ENAMETOOLONG;
        return try_path(directory, name, ret, size);
}

int program_path(const char *name, char *ret, size_t size, struct error *err)
{
        char self[PATH_MAX];

        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        if (n < 0 && is_refused(errno))
                return refuse("readlink", errno, err);
        if (n < 0)
                return error_errno(err, errno, "read /proc/self/exe");
        self[n] = '\0';
        if (access(self, F_OK) < 0 && is_refused(errno))
                return refuse("access", errno, err);
        *strrchr(self, '/') = '\0';
        /* All are in one folder of a build tree. Installed, `cloister` is in bin and the others are
         * in libexec; the tree may have been moved since it was installed. */
        if (try_path(self, name, ret, size) == 0 ||
            try_relative(self, CLOISTER_BIN_TO_LIBEXEC, name, ret, size) == 0 ||
            try_relative(self, CLOISTER_LIBEXEC_TO_BIN, name, ret, size) == 0 ||
            try_path(CLOISTER_LIBEXECDIR, name, ret, size) == 0 ||
            try_path(CLOISTER_BINDIR, name, ret, size) == 0)
                return 0;
        return error_set(err, ENOENT, "%s is neither in %s nor in %s: install Cloister whole", name,
                         self, CLOISTER_LIBEXECDIR);
}

int program_open(const char *name, struct error *err)
{
        char path[PATH_MAX];

        int r = program_path(name, path, sizeof(path), err);
        if (r < 0)
                return r;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? error_errno(err, errno, "open %s", path) : fd;
}
