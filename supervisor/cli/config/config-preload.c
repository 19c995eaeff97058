/* Whether an image has the modules that a profile preloads: searched by name, because code of an
 * image runs in sandboxes only. */
#include "supervisor/cli/config/config-preload.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/config/config.h"
#include "policy/image.h"

enum { TEXT_MAX = 1024, DEPTH_MAX = 12, FOLDERS_MAX = 4096 };

/* Modules that have no file in some builds of CPython. Names with an underscore are not listed. */
static const char *const built_in[] = {
        "array",  "atexit",  "binascii",    "builtins",  "cmath",    "errno",  "faulthandler",
        "fcntl",  "gc",      "grp",         "itertools", "marshal",  "math",   "mmap",
        "posix",  "pwd",     "pyexpat",     "readline",  "resource", "select", "sys",
        "syslog", "termios", "unicodedata", "time",      "zlib",
};

struct search {
        const char *name; /* the first part of the module's name */
        size_t length;
        size_t folders; /* that were read */
        bool found;
        bool unsure; /* a .pth file names further folders, or not all was read */
};

/* Folders that sys.path names; packages in them are not searched. */
static bool is_place(const char *name)
{
        return strncmp(name, "python", 6) == 0 || strcmp(name, "lib-dynload") == 0 ||
               strcmp(name, "site-packages") == 0 || strcmp(name, "dist-packages") == 0;
}

static void look_at(struct search *s, const char *name)
{
        size_t n = strlen(name);

        if (strncmp(name, s->name, s->length) == 0 &&
            (name[s->length] == '\0' || name[s->length] == '.'))
                s->found = true;
        if (n > 4 && (strcmp(name + n - 4, ".pth") == 0 || strcmp(name + n - 4, ".zip") == 0 ||
                      strcmp(name + n - 4, ".egg") == 0))
                s->unsure = true;
}

/* Takes ownership of fd. Links are not followed. */
static void search_folder(struct search *s, int fd, bool is_searched, int depth)
{
        DIR *folder = fdopendir(fd);
        struct dirent *entry;

        if (!folder) {
                close(fd);
                return;
        }
        s->folders++;
        while (!s->found && (entry = readdir(folder))) {
                const char *name = entry->d_name;
                bool place = is_place(name);
                if (name[0] == '.')
                        continue;
                if (is_searched)
                        look_at(s, name);
                if ((is_searched && !place) || depth == DEPTH_MAX || s->folders == FOLDERS_MAX)
                        continue;
                int below = openat(dirfd(folder), name,
                                   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
                if (below >= 0)
                        search_folder(s, below, place, depth + 1);
        }
        closedir(folder);
}

static bool is_built_in(const char *name, size_t length)
{
        for (size_t i = 0; i < ARRAY_SIZE(built_in); i++)
                if (strlen(built_in[i]) == length && memcmp(built_in[i], name, length) == 0)
                        return true;
        return name[0] == '_';
}

/* Opens the root of the image, or of the one that was made of the profile's interpreter. */
static int open_image(int store, const char *image, const char *python)
{
        _cleanup_free_ char *data = NULL;
        char path[IMAGE_NAME_SIZE + 16];
        struct image_info info;
        size_t length;

        snprintf(path, sizeof(path), "%s/image.json", image);
        _cleanup_close_ int fd = openat(store, path,
                                        O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 || fd_read_whole(fd, IMAGE_JSON_MAX, &data, &length, NULL) < 0 ||
            image_info_parse(data, length, &info, NULL) < 0 ||
            (python && strcmp(info.source, python) != 0))
                return -1;
        snprintf(path, sizeof(path), "%s/root", image);
        return openat(store, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int open_default_image(int store, const char *python)
{
        const char *source = python ? python : IMAGE_PYTHON_DEFAULT;
        DIR *folder = fd_open_directory(store, ".");
        struct dirent *entry;
        int root = -1;

        while (folder && root < 0 && (entry = readdir(folder)))
                if (strncmp(entry->d_name, "default-", 8) == 0 &&
                    strlen(entry->d_name) < IMAGE_NAME_SIZE)
                        root = open_image(store, entry->d_name, source);
        if (folder)
                closedir(folder);
        return root;
}

void config_check_preload(struct config *config, const struct config_profile *profile, int store)
{
        char text[TEXT_MAX];

        if (!profile->preload || store < 0)
                return;
        _cleanup_close_ int root = profile->image ? open_image(store, profile->image, NULL)
                                                  : open_default_image(store, profile->python);
        for (size_t i = 0; root >= 0 && profile->preload[i]; i++) {
                const char *name = profile->preload[i];
                struct search s = {.name = name, .length = strcspn(name, ".")};
                int again = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (again >= 0)
                        search_folder(&s, again, false, 0);
                if (s.found || s.unsure || s.folders == FOLDERS_MAX || is_built_in(name, s.length))
                        continue;
                snprintf(text, sizeof(text),
                         "profile \"%s\": preload: the image has no module \"%.*s\"", profile->name,
                         (int)s.length, name);
                config_report(config, false, text);
        }
}
