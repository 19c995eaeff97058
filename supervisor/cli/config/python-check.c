/* The interpreters that `cloister config check` finds. */
#include "supervisor/cli/config/python-check.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/printable.h"
#include "supervisor/config/packages-check.h"
#include "supervisor/pythons/version-image.h"

/* Of the user that images are made as; NULL: our own. */
static const char *home_of_owner(const struct config *config)
{
        uid_t uid = packages_check_uid(config);
        const struct passwd *entry = uid == geteuid() ? NULL : getpwuid(uid);

        return entry ? entry->pw_dir : NULL;
}

void python_check_init(struct python_check *check, const struct config *config)
{
        *check = (struct python_check){};
        for (size_t i = 0; i < config->n_profiles && !check->found; i++)
                if (!config->profiles[i].image &&
                    python_version_is_meant(config->profiles[i].python))
                        check->found = calloc(1, sizeof(*check->found));
        if (check->found)
                pythons_list(home_of_owner(config), check->found);
}

void python_check_done(struct python_check *check)
{
        free(check->found);
}

const char *python_check_path(const struct python_check *check, const char *python)
{
        struct python_version wanted;

        if (!python_version_is_meant(python))
                return python;
        if (!check->found || python_version_parse(python, &wanted, NULL) < 0)
                return NULL;
        const struct python *found = pythons_pick(check->found, &wanted);
        return found ? found->path : NULL;
}

const char *python_check_problem(const struct python_check *check,
                                 const struct config_profile *profile, int store, struct error *why)
{
        const char *path = python_check_path(check, profile->python);
        struct python_version wanted;
        char image[IMAGE_NAME_SIZE];

        if (path && access(path, X_OK) == 0)
                return NULL;
        if (path)
                error_errno(why, errno, "python %s", path);
        else if (profile->python_downloads ||
                 (python_version_parse(profile->python, &wanted, NULL) == 0 &&
                  version_image_find(store, &wanted, image)))
                return NULL;
        else
                pythons_missing(profile->python, check->found, why);
        return why->text;
}

void python_check_print(const struct python_check *check)
{
        for (size_t i = 0; check->found && i < check->found->n; i++) {
                const struct python *python = &check->found->items[i];
                printf("Python 3.%d.%d: ", python->version.minor, python->version.patch);
                printable_print(stdout, python->path);
                putchar('\n');
        }
}

void python_check_put(const struct python_check *check, struct json_out *out)
{
        char version[32];

        if (!check->found)
                return;
        json_out_begin(out, "pythons", '[');
        for (size_t i = 0; i < check->found->n; i++) {
                const struct python *python = &check->found->items[i];
                snprintf(version, sizeof(version), "3.%d.%d", python->version.minor,
                         python->version.patch);
                json_out_begin(out, NULL, '{');
                json_out_text(out, "version", version);
                json_out_text(out, "path", python->path);
                json_out_end(out, '}');
        }
        json_out_end(out, ']');
}
