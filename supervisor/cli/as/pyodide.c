/* Finds npm's package "pyodide". */
#include "supervisor/cli/as/pyodide.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "policy/image.h"

enum { PLACES_TEXT_MAX = 512 };

static bool is_package(const char *folder)
{
        char path[PATH_MAX];

        return snprintf(path, sizeof(path), "%s/" PYODIDE_FILE, folder) < PATH_MAX &&
               access(path, R_OK) == 0;
}

/* PREFIX/bin/node: npm's global packages are in PREFIX/lib/node_modules. *ret is "" if there is no node in PATH. */
static void find_prefix(char ret[PATH_MAX])
{
        const char *path = getenv("PATH");
        char program[PATH_MAX];

        *ret = '\0';
        while (path && *path) {
                size_t n = strcspn(path, ":");
                if (*path == '/' &&
                    snprintf(program, sizeof(program), "%.*s/node", (int)n, path) < PATH_MAX &&
                    realpath(program, ret)) {
                        for (int i = 0; i < 2 && strrchr(ret, '/'); i++)
                                *strrchr(ret, '/') = '\0';
                        return;
                }
                *ret = '\0';
                path += n + (path[n] == ':');
        }
}

/* The first directory that has it. Otherwise, where it was searched for. */
static bool find(char ret[PATH_MAX], char places[PLACES_TEXT_MAX])
{
        char prefix[PATH_MAX];
        const char *const roots[] = {path_home(), getenv("npm_config_prefix"), prefix, "/usr/local",
                                     "/usr"};
        size_t used = 0;

        find_prefix(prefix);
        *places = '\0';
        for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
                /* The home has packages of its own, the others have the global ones. */
                if (!roots[i] || roots[i][0] != '/' ||
                    snprintf(ret, PATH_MAX, "%s%s/node_modules/pyodide", roots[i],
                             i > 0 ? "/lib" : "") >= PATH_MAX)
                        continue;
                if (is_package(ret))
                        return true;
                if (used < PLACES_TEXT_MAX && !strstr(places, ret))
                        used += (size_t)snprintf(places + used, PLACES_TEXT_MAX - used, "%s%s",
                                                 used > 0 ? ", " : "", ret);
        }
        return false;
}

static int put(const struct config_profile *p, struct json_tree *settings, struct error *err)
{
        _cleanup_buffer_ struct buffer json = BUFFER_INIT(8 * PATH_MAX);
        char found[PATH_MAX], places[PLACES_TEXT_MAX], pointer[IMAGE_NAME_SIZE + 32];

        if (p->pyodide)
                return is_package(p->pyodide)
                               ? 0
                               : error_set(
                                         err, ENOENT,
                                         "\"pyodide\" in the config: %s has no npm package: npm install --prefix ~ pyodide",
                                         p->pyodide);
        if (!find(found, places))
                return error_set(
                        err, ENOENT,
                        "Pyodide is not installed (not in %s): npm install --prefix ~ pyodide, or name its directory with \"pyodide\" in the config",
                        places);
        snprintf(pointer, sizeof(pointer), "/profiles/%s/pyodide", p->name);
        int r = json_append_string(&json, found, strlen(found));
        if (r >= 0)
                r = json_tree_put(settings, pointer, buffer_bytes(&json), json.length);
        return r < 0 ? error_errno(err, -r, "Pyodide") : 0;
}

int pyodide_put(const struct config *config, struct json_tree *settings, struct error *err)
{
        int r = 0;

        for (size_t i = 0; i < config->n_published && r >= 0; i++) {
                const struct config_published *tool = &config->published[i];
                size_t profile = tool->profile ? config_profile_index(config, tool->profile)
                                               : config->profile;
                if (tool->run.code && tool->run.guest == GUEST_PYODIDE && !tool->replaced &&
                    profile < config->n_profiles)
                        r = put(&config->profiles[profile], settings, err);
        }
        return r;
}
