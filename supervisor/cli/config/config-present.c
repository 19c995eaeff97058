/* Finds names in a config that this machine lacks: programs, interpreters, images, directories, users. */
#include "supervisor/cli/config/config-present.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "policy/config/config.h"
#include "policy/image.h"
#include "supervisor/cli/images/images.h"
#include "supervisor/config/packages-check.h"

enum { TEXT_MAX = 1024, DEPTH_MAX = 12, FOLDERS_MAX = 4096 };

static void warn(struct config *config, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
static void warn(struct config *config, const char *format, ...)
{
        char text[TEXT_MAX];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        config_report(config, false, text);
}

/* ---- modules: searched by name, because code of an image runs in sandboxes only ---- */

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

/* Reports as warnings the modules of "preload" that the image lacks. store: the image store, or -1. */
static void check_preload(struct config *config, const struct config_profile *profile, int store)
{
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
                warn(config, "profile \"%s\": preload: the image has no module \"%.*s\"",
                     profile->name, (int)s.length, name);
        }
}

/* ---- everything else ---- */

static bool is_program(const char *command, const char *cwd)
{
        char file[PATH_MAX];

        if (!strchr(command, '/'))
                return packages_check_path(command);
        if (command[0] == '/' || !cwd)
                return access(command, X_OK) == 0;
        snprintf(file, sizeof(file), "%s/%s", cwd, command);
        return access(file, X_OK) == 0;
}

static void check_server(struct config *config, const struct config_server *s)
{
        size_t word = s->command ? strcspn(s->command, " ") : 0;

        if (s->disabled || s->problem || !s->command)
                return;
        if (s->cwd && access(s->cwd, X_OK) < 0)
                warn(config, "%s: server \"%s\": its cwd %s: %s", s->place, s->name, s->cwd,
                     strerror(errno));
        else if (is_program(s->command, s->cwd))
                return;
        else if (s->command[word])
                warn(config,
                     "%s: server \"%s\": there is no program \"%s\": \"command\" is the program alone (%.*s), \"args\" has the rest",
                     s->place, s->name, s->command, (int)word, s->command);
        else
                warn(config, "%s: server \"%s\": there is no program %s%s", s->place, s->name,
                     s->command, strchr(s->command, '/') ? "" : " in PATH");
}

static void check_mount(struct config *config, const struct config_profile *profile,
                        const struct config_mount *mount)
{
        const char *home = path_home();
        char path[PATH_MAX];
        struct stat st;

        snprintf(path, sizeof(path), "%s%s", mount->source[0] == '~' && home ? home : "",
                 mount->source + (mount->source[0] == '~'));
        int r = stat(path, &st);
        if (r == 0 && S_ISDIR(st.st_mode))
                return;
        warn(config, "profile \"%s\": mount %s: %s", profile->name, mount->source,
             r < 0 ? strerror(errno) : "is no directory");
}

/* An image is made at the first use, unless it has a name. */
static void check_image(struct config *config, const struct config_profile *profile, int store)
{
        char file[PATH_MAX];

        if (profile->image) {
                snprintf(file, sizeof(file), "%s/image.json", profile->image);
                if (store >= 0 && faccessat(store, file, F_OK, 0) == 0)
                        return;
                warn(config,
                     "profile \"%s\": there is no image '%s' (make it with 'cloister image build --name %s')",
                     profile->name, profile->image, profile->image);
        } else if (profile->python && access(profile->python, X_OK) < 0) {
                warn(config, "profile \"%s\": python %s: %s", profile->name, profile->python,
                     strerror(errno));
        }
}

static void check_packages(struct config *config, const struct config_profile *profile, int store)
{
        const char *why = packages_check(config, profile, store);

        if (why)
                warn(config, "profile \"%s\": packages: %s", profile->name, why);
}

/* Root gives its own store to the config's user at the first use. */
static void check_store(struct config *config, int store, const char *path)
{
        uid_t uid = packages_check_uid(config);
        struct owner_difference other;
        struct error error = {};
        struct stat st;

        if (store < 0 || geteuid() != 0 || fstat(store, &st) < 0 || (st.st_uid == 0 && uid != 0))
                return;
        if (image_store_owned(path, owner_compare(store, uid, &other), &other, &error) < 0)
                config_report(config, false, error.text);
}

void config_check_present(const struct options *o, struct config *config)
{
        char path[PATH_MAX];
        _cleanup_close_ int store = images_open(o, path, NULL);

        check_store(config, store, path);
        for (size_t i = 0; i < config->n_servers; i++)
                check_server(config, &config->servers[i]);
        for (size_t i = 0; i < config->n_profiles; i++) {
                const struct config_profile *profile = &config->profiles[i];
                check_image(config, profile, store);
                check_packages(config, profile, store);
                check_preload(config, profile, store);
                for (size_t j = 0; j < profile->n_mounts; j++)
                        check_mount(config, profile, &profile->mounts[j]);
        }
        if (config->user && geteuid() == 0 && !getpwnam(config->user) &&
            packages_check_uid(config) == 0)
                warn(config, "user \"%s\": there is no such user", config->user);
}
