/* Checks of what an installation of packages requires on this machine. */
#include "supervisor/config/packages-check.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "policy/package-set.h"

bool packages_check_path(const char *name)
{
        const char *path = getenv("PATH");
        char file[PATH_MAX];

        for (const char *at = path ? path : "/usr/bin:/bin"; *at;) {
                size_t n = strcspn(at, ":");
                snprintf(file, sizeof(file), "%.*s/%s", (int)n, at, name);
                if (access(file, X_OK) == 0)
                        return true;
                at += n + (at[n] == ':');
        }
        return false;
}

uid_t packages_check_uid(const struct config *config)
{
        const char *name = config->user ? config->user : getenv("SUDO_UID");

        if (geteuid() != 0 || !name)
                return geteuid();
        const struct passwd *entry = getpwnam(name);
        if (!entry && name[0] >= '0' && name[0] <= '9')
                entry = getpwuid((uid_t)strtoul(name, NULL, 10));
        return entry ? entry->pw_uid : geteuid();
}

/* Who could write there could put code into sessions: the installer refuses it too. */
static bool is_safe(int store, const char *below)
{
        struct stat st;

        return fstatat(store, below, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
               (S_ISDIR(st.st_mode) && (st.st_mode & 0022) == 0);
}

/* uv, or a pip: in PATH, of Debian's Python, or in the ensurepip of one. */
static bool has_installer(void)
{
        static const char *const places[] = {
                "/usr/lib/python3/dist-packages/pip",
                "/usr/share/python-wheels/pip-*.whl",
                "/usr/lib/python3*/ensurepip/_bundled/pip-*.whl",
                "/usr/local/lib/python3*/ensurepip/_bundled/pip-*.whl",
        };

        if (packages_check_path("uv") || packages_check_path("pip") || packages_check_path("pip3"))
                return true;
        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                glob_t found;
                int r = glob(places[i], GLOB_NOSORT, NULL, &found);
                if (r == 0)
                        globfree(&found);
                if (r == 0)
                        return true;
        }
        return false;
}

const char *packages_check(const struct config *config, const struct config_profile *profile,
                           int store)
{
        char own[PATH_MAX], sets[PATH_MAX];

        if (!profile->packages.install)
                return NULL;
        snprintf(own, sizeof(own), PACKAGES_INSTALLED "/%s", profile->name);
        snprintf(sets, sizeof(sets), PACKAGES_INSTALLED "/%s/" PACKAGES_SETS, profile->name);
        if (packages_check_uid(config) == 0)
                return "packages are never installed by root: name a \"user\" in the config";
        bool npm = profile->language == LANGUAGE_JAVASCRIPT;
        if (npm && !packages_check_path("npm"))
                return "there is no npm in PATH: install npm, which finds and fetches packages of JavaScript";
        if (!npm && profile->packages.exclude_newer && !packages_check_path("uv"))
                return "exclude_newer needs uv, which is not in PATH";
        if (!npm && !has_installer())
                return "there is neither uv nor pip: apt install python3-pip, or put uv into PATH";
        if (store >= 0 && (!is_safe(store, ".") || !is_safe(store, PACKAGES_INSTALLED) ||
                           !is_safe(store, own) || !is_safe(store, sets)))
                return "others can write to the directory of packages in the image store";
        return NULL;
}
