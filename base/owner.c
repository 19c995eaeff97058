/* Who a directory belongs to. */
#include "base/owner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"

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

static int refuse(const char *path, const char *below, uid_t owner, uid_t uid, struct error *err)
{
        char has[OWNER_TEXT_SIZE], makes[OWNER_TEXT_SIZE], to[OWNER_TEXT_SIZE], shown[81];

        snprintf(shown, sizeof(shown), "%s", below);
        for (char *at = shown; *at; at++)
                if (*at < ' ' || *at > '~')
                        *at = '?';
        owner_describe(owner, has);
        owner_describe(uid, makes);
        name_of(uid, to);
        if (!*below)
                return error_set(
                        err, EPERM,
                        "image store %s belongs to %s and images are made as %s: name that user in the config (\"user\"), or chown -Rh %s: %s",
                        path, has, makes, to, path);
        return error_set(
                err, EPERM,
                "image store %s: %s in it belongs to %s and images are made as %s: chown -Rh %s: %s",
                path, shown, has, makes, to, path);
}

/* Returns 1 and the owner if it is not uid. What was removed meanwhile belongs to nobody. */
static int is_of_another(int directory, const char *name, uid_t uid, uid_t *ret)
{
        struct stat st;

        if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
                return 0;
        *ret = st.st_uid;
        return st.st_uid != uid;
}

int owner_check_store(int store, const char *path, uid_t uid, struct error *err)
{
        uid_t other;
        int r = 0;

        if (is_of_another(store, "", uid, &other))
                return refuse(path, "", other, uid, err);
        DIR *stream = fd_open_directory(store, ".");
        if (!stream)
                return error_errno(err, errno, "image store %s", path);
        for (struct dirent *d; r == 0 && (d = readdir(stream));)
                if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0 &&
                    is_of_another(dirfd(stream), d->d_name, uid, &other))
                        r = refuse(path, d->d_name, other, uid, err);
        closedir(stream);
        return r;
}
