/* Finds names in a config that this machine lacks: programs, interpreters, images, directories, users. */
#include "supervisor/cli/config/config-present.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "policy/config/config.h"
#include "policy/image.h"
#include "supervisor/cli/config/config-preload.h"
#include "supervisor/cli/images/images.h"
#include "supervisor/config/packages-check.h"

enum { TEXT_MAX = 1024 };

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
        char text[TEXT_MAX] = "";
        size_t word = s->command ? strcspn(s->command, " ") : 0;

        if (s->disabled || s->problem || !s->command)
                return;
        if (s->cwd && access(s->cwd, X_OK) < 0)
                snprintf(text, sizeof(text), "%s: server \"%s\": its cwd %s: %s", s->place, s->name,
                         s->cwd, strerror(errno));
        else if (is_program(s->command, s->cwd))
                return;
        else if (s->command[word])
                snprintf(
                        text, sizeof(text),
                        "%s: server \"%s\": there is no program \"%s\": \"command\" is the program alone (%.*s), \"args\" has the rest",
                        s->place, s->name, s->command, (int)word, s->command);
        else
                snprintf(text, sizeof(text), "%s: server \"%s\": there is no program %s%s",
                         s->place, s->name, s->command, strchr(s->command, '/') ? "" : " in PATH");
        config_report(config, false, text);
}

static void check_mount(struct config *config, const struct config_profile *profile,
                        const struct config_mount *mount)
{
        const char *home = path_home();
        char path[PATH_MAX], text[TEXT_MAX];
        struct stat st;

        snprintf(path, sizeof(path), "%s%s", mount->source[0] == '~' && home ? home : "",
                 mount->source + (mount->source[0] == '~'));
        int r = stat(path, &st);
        if (r == 0 && S_ISDIR(st.st_mode))
                return;
        snprintf(text, sizeof(text), "profile \"%s\": mount %s: %s", profile->name, mount->source,
                 r < 0 ? strerror(errno) : "is no directory");
        config_report(config, false, text);
}

/* An image is made at the first use, unless it has a name. */
static void check_image(struct config *config, const struct config_profile *profile, int store)
{
        char text[TEXT_MAX], file[PATH_MAX];

        if (profile->image) {
                snprintf(file, sizeof(file), "%s/image.json", profile->image);
                if (store >= 0 && faccessat(store, file, F_OK, 0) == 0)
                        return;
                snprintf(
                        text, sizeof(text),
                        "profile \"%s\": there is no image '%s' (make it with 'cloister image build --name %s')",
                        profile->name, profile->image, profile->image);
                config_report(config, false, text);
        } else if (profile->python && access(profile->python, X_OK) < 0) {
                snprintf(text, sizeof(text), "profile \"%s\": python %s: %s", profile->name,
                         profile->python, strerror(errno));
                config_report(config, false, text);
        }
}

static void check_packages(struct config *config, const struct config_profile *profile, int store)
{
        const char *why = packages_check(config, profile, store);
        char text[TEXT_MAX];

        if (!why)
                return;
        snprintf(text, sizeof(text), "profile \"%s\": packages: %s", profile->name, why);
        config_report(config, false, text);
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
        char path[PATH_MAX], text[TEXT_MAX];
        _cleanup_close_ int store = images_open(o, path, NULL);

        check_store(config, store, path);
        for (size_t i = 0; i < config->n_servers; i++)
                check_server(config, &config->servers[i]);
        for (size_t i = 0; i < config->n_profiles; i++) {
                const struct config_profile *profile = &config->profiles[i];
                check_image(config, profile, store);
                check_packages(config, profile, store);
                config_check_preload(config, profile, store);
                for (size_t j = 0; j < profile->n_mounts; j++)
                        check_mount(config, profile, &profile->mounts[j]);
        }
        if (config->user && geteuid() == 0 && !getpwnam(config->user) &&
            packages_check_uid(config) == 0) {
                snprintf(text, sizeof(text), "user \"%s\": there is no such user", config->user);
                config_report(config, false, text);
        }
}
