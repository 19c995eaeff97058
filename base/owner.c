/* Who files belong to. */
#include "base/owner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
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
        DIR *stream = fd_open_directory(directory, ".");
        if (!stream)
                return -errno;
        for (struct dirent *d; r == 0 && (d = readdir(stream));)
                if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0 &&
                    is_of_another(dirfd(stream), d->d_name, uid, &other))
                        r = differs(d->d_name, other, uid, ret);
        closedir(stream);
        return r;
}
