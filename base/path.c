/* Files and directories by path. */
#include "base/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

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

/* ---- who files belong to ---- */

enum { NAME_MAX_SHOWN = 40 };

/* As a command takes it: "root", "games", "5". */
static void name_of(uid_t uid, char ret[OWNER_TEXT_SIZE])
{
        const struct passwd *entry = uid == 0 ? NULL : getpwuid(uid);

        if (uid == 0)
                snprintf(ret, OWNER_TEXT_SIZE, "root");
        else if (entry && strlen(entry->pw_name) <= NAME_MAX_SHOWN)
                snprintf(ret, OWNER_TEXT_SIZE, "%s", entry->pw_name);
        else
                snprintf(ret, OWNER_TEXT_SIZE, "%u", uid);
}

void owner_describe(uid_t uid, char ret[OWNER_TEXT_SIZE])
{
        char name[OWNER_TEXT_SIZE];

        name_of(uid, name);
        if (uid == 0)
                snprintf(ret, OWNER_TEXT_SIZE, "root");
        else if (name[0] >= '0' && name[0] <= '9')
                snprintf(ret, OWNER_TEXT_SIZE, "uid %u", uid);
        else
                snprintf(ret, OWNER_TEXT_SIZE, "uid %u (%.40s)", uid, name);
}

static int differs(const char *name, uid_t found, uid_t uid, struct owner_difference *ret)
{
        snprintf(ret->name, sizeof(ret->name), "%s", name);
        for (char *at = ret->name; *at; at++)
                if (*at < ' ' || *at > '~')
                        *at = '?';
        owner_describe(found, ret->found);
        owner_describe(uid, ret->expected);
        name_of(uid, ret->expected_name);
        return 1;
}

/* Returns 1 and the owner if it is not uid, otherwise 0, also for a file that was removed meanwhile. */
static int is_of_another(int directory, const char *name, uid_t uid, uid_t *ret)
{
        struct stat st;

        if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
                return 0;
        *ret = st.st_uid;
        return st.st_uid != uid;
}

int owner_compare(int directory, uid_t uid, struct owner_difference *ret)
{
        uid_t other;
        int r = 0;

        if (is_of_another(directory, "", uid, &other))
                return differs("", other, uid, ret);
        _cleanup_closedir_ DIR *stream = fd_open_directory(directory, ".");
        if (!stream)
                return -errno;
        for (struct dirent *d; r == 0 && (d = readdir(stream));)
                if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0 &&
                    is_of_another(dirfd(stream), d->d_name, uid, &other))
                        r = differs(d->d_name, other, uid, ret);
        return r;
}
