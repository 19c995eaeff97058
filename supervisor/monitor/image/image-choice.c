/* Which image sessions are made of. */
#include "supervisor/monitor/image/image-choice.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

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

static int choose_place(const char *python, struct image_choice *ret, struct error *err)
{
        struct image_store_env env = {
                .store = getenv("CLOISTER_IMAGE_STORE"),
                .data_home = getenv("XDG_DATA_HOME"),
                .home = path_home(),
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
                                 "\"%s\" is not a valid image name ([A-Za-z0-9_.-], 1 to 64)",
                                 name);
        snprintf(ret->name, sizeof(ret->name), "%s", name);
        return 0;
}

int image_choose_set(const struct package_set *set, const char *python, struct image_choice *ret,
                     struct error *err)
{
        *ret = (struct image_choice){.is_default = true, .set = set};
        return choose_place(python, ret, err);
}
