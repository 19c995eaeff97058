/* Moves packages into an image's root. */
#include "rootfs/layer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

enum { DEPTH_MAX = 64, FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

static int move(int from, int to, int depth);

/* Moves by rename; directories that both have are merged. */
static int move_entry(int from, int to, const char *name, int depth)
{
        if (renameat(from, name, to, name) == 0)
                return 0;
        if ((errno != ENOTEMPTY && errno != EEXIST) || depth == DEPTH_MAX)
                return -errno;
        _cleanup_close_ int below = openat(from, name, FLAGS);
        _cleanup_close_ int there = below < 0 ? -1 : openat(to, name, FLAGS);
        if (there < 0)
                return -errno;
        return move(below, there, depth + 1);
}

static int move(int from, int to, int depth)
{
        DIR *stream = fd_open_directory(from, ".");
        int r = 0;

        if (!stream)
                return -errno;
        for (struct dirent *d; r >= 0 && (d = readdir(stream));)
                if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
                        r = move_entry(from, to, d->d_name, depth);
        closedir(stream);
        return r;
}

static int open_inside(int root, const char *path)
{
        struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                               .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
        long fd = syscall(SYS_openat2, root, path, &how, sizeof(how));
        return fd < 0 ? -errno : (int)fd;
}

/* Moves bin/ of the packages to a directory of PATH. */
static int move_programs(int packages, int root)
{
        _cleanup_close_ int bin = openat(packages, "bin", FLAGS);
        if (bin < 0)
                return errno == ENOENT ? 0 : -errno;
        _cleanup_close_ int usr = open_inside(root, "/usr");
        if (usr < 0)
                return usr;
        if ((mkdirat(usr, "local", 0755) < 0 && errno != EEXIST) ||
            (mkdirat(usr, "local/bin", 0755) < 0 && errno != EEXIST))
                return -errno;
        _cleanup_close_ int to = open_inside(root, "/usr/local/bin");
        int r = to < 0 ? to : move(bin, to, 0);
        return r < 0 ? r : unlinkat(packages, "bin", AT_REMOVEDIR) < 0 ? -errno : 0;
}

int layer_merge(int directory, const char *place, struct error *err)
{
        _cleanup_close_ int packages = openat(directory, "packages", FLAGS);
        _cleanup_close_ int root = openat(directory, "root", FLAGS);

        if (packages < 0 || root < 0)
                return error_errno(err, errno, "packages");
        _cleanup_close_ int to = open_inside(root, place);
        int r = to < 0 ? to : move_programs(packages, root);
        if (r >= 0)
                r = move(packages, to, 0);
        if (r < 0)
                return error_errno(err, -r, "move packages to %s", place);
        /* Only empty directories are left. */
        return 0;
}
