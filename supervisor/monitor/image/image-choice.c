/* Which image sessions are made of. */
#include "supervisor/monitor/image/image-choice.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/path.h"

static int look(const char *path, struct image_stamp *ret)
{
        struct stat st;

        if (stat(path, &st) < 0)
                return -errno;
        *ret = (struct image_stamp){.inode = st.st_ino,
                                    .size = (uint64_t)st.st_size,
                                    .mtime_ns = st.st_mtim.tv_sec * 1000000000LL +
                                                st.st_mtim.tv_nsec};
        return 0;
}

int image_choice_default_name(const struct image_choice *choice, const char *parts,
                              char ret[IMAGE_NAME_SIZE], struct error *err)
{
        return image_default_name(choice->python, parts, look, ret, err);
}

int image_choice_check(const struct image_choice *choice, struct error *err)
{
        char name[IMAGE_NAME_SIZE];

        return choice->is_default ? image_choice_default_name(choice, NULL, name, err) : 0;
}

static const char *home_directory(void)
{
        const char *home = getenv("HOME");
        if (home && *home == '/')
                return home;
        const struct passwd *entry = getpwuid(geteuid());
        return entry ? entry->pw_dir : NULL;
}

static int choose_place(const char *python, struct image_choice *ret, struct error *err)
{
        struct image_store_env env = {
                .store = getenv("CLOISTER_IMAGE_STORE"),
                .data_home = getenv("XDG_DATA_HOME"),
                .home = home_directory(),
        };

        int r = image_store_path(geteuid(), &env, ret->store, sizeof(ret->store), err);
        if (r < 0)
                return r;
        if (!python)
                python = IMAGE_PYTHON_DEFAULT;
        if ((size_t)snprintf(ret->python, sizeof(ret->python), "%s", python) >= sizeof(ret->python))
                return error_set(err, ENAMETOOLONG, "the path of the interpreter is too long");
        return 0;
}

int image_choose(const char *name, const char *python, struct image_choice *ret, struct error *err)
{
        *ret = (struct image_choice){.is_default = !name};
        int r = choose_place(python, ret, err);
        if (r < 0 || !name)
                return r;
        if (!image_name_valid(name))
                return error_set(err, EINVAL,
                                 "'%s' is no name for an image ([A-Za-z0-9_.-], 1 to 64)", name);
        snprintf(ret->name, sizeof(ret->name), "%s", name);
        return 0;
}

int image_choose_set(const struct package_set *set, const char *python, struct image_choice *ret,
                     struct error *err)
{
        *ret = (struct image_choice){.is_default = true, .set = set};
        return choose_place(python, ret, err);
}

int image_store_create(const struct image_choice *choice, const struct upstream_user *user,
                       struct error *err)
{
        const char *path = choice->store;

        int r = path_make_directories(path, 0755);
        if (r < 0)
                return error_errno(err, -r, "create %s", path);
        /* Only what is root's is given away, so that a link put there cannot name another's
         * directory. */
        _cleanup_close_ int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        struct stat st;
        if (dir < 0 || fstat(dir, &st) < 0)
                return error_errno(err, errno, "image store %s", path);
        if (st.st_uid == geteuid() && user->uid != st.st_uid &&
            fchown(dir, user->uid, user->gid) < 0)
                return error_errno(err, errno, "give image store %s to uid %u", path, user->uid);
        return 0;
}
