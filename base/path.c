/* Files and directories by path. */
#include "base/path.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_directory(const char *path, mode_t mode)
{
        return mkdir(path, mode) < 0 && errno != EEXIST ? -errno : 0;
}

int path_make_parents(const char *path, mode_t mode)
{
        char part[PATH_MAX];

        if (*path == '\0')
                return -ENOENT;
        if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part))
                return -ENAMETOOLONG;
        for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                int r = make_directory(part, mode);
                if (r < 0)
                        return r;
                *slash = '/';
        }
        return 0;
}

int path_make_directories(const char *path, mode_t mode)
{
        int r = path_make_parents(path, mode);

        return r < 0 ? r : make_directory(path, mode);
}

bool path_is_clean(const char *path)
{
        bool clean = path[0] == '/';

        for (const char *p = path; clean && p; p = strchr(p + 1, '/')) {
                size_t n = strcspn(p + 1, "/");
                clean = n > 0 && !(n == 1 && p[1] == '.') &&
                        !(n == 2 && p[1] == '.' && p[2] == '.');
        }
        return clean;
}

int path_in_base(const char *base, const char *home, const char *fallback, const char *below,
                 char *ret, size_t size)
{
        int n;

        if (base && base[0] == '/')
                n = snprintf(ret, size, "%s/%s", base, below);
        else if (home && home[0] == '/')
                n = snprintf(ret, size, "%s/%s/%s", home, fallback, below);
        else
                return -ENOENT;
        return n > 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

const char *path_home(void)
{
        const char *home = getenv("HOME");

        if (home && home[0] == '/')
                return home;
        const struct passwd *entry = getpwuid(geteuid());
        return entry && entry->pw_dir && entry->pw_dir[0] == '/' ? entry->pw_dir : NULL;
}

int path_in_user_directory(const char *variable, const char *fallback, const char *below, char *ret,
                           size_t size)
{
        return path_in_base(getenv(variable), path_home(), fallback, below, ret, size);
}

void path_remove_with_directory(const char *path)
{
        char directory[PATH_MAX];
        const char *name = strrchr(path, '/');

        if (!name)
                return;
        unlink(path);
        snprintf(directory, sizeof(directory), "%.*s", (int)(name - path), path);
        rmdir(directory);
}
