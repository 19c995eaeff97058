/* The CPythons of this machine, by version. */
#include "supervisor/pythons/pythons.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/path.h"
#include "supervisor/pythons/ask.h"

enum {
        FOLDERS_MAX = 256, /* of pyenv or uv */
        ONE_US = 5 * 1000 * 1000,
        ALL_US = 8 * 1000 * 1000,
        TEXT_MAX = 300,
        LAST_MINOR = 40, /* of which programs are searched for in PATH if no version is named */
};

/* ---- the search ---- */

/* The request: one minor version, or PYTHON_PATCH_ANY for all. */
struct search {
        struct pythons *found;
        int minor;
};

static void add(struct search *s, const char *folder, int minor, int patch)
{
        struct python python = {.version = {minor, patch}};
        char file[PATH_MAX];
        struct stat st;

        int n = snprintf(python.path, sizeof(python.path), "%s/python3.%d", folder, minor);
        if (n >= (int)sizeof(python.path) || s->found->n == PYTHONS_MAX ||
            stat(python.path, &st) < 0 || !S_ISREG(st.st_mode))
                return;
        snprintf(file, sizeof(file), "%s/../pyvenv.cfg", folder);
        if (access(file, F_OK) == 0)
                return;
        for (size_t i = 0; i < s->found->n; i++)
                if (s->found->items[i].device == st.st_dev && s->found->items[i].inode == st.st_ino)
                        return;
        python.device = st.st_dev;
        python.inode = st.st_ino;
        s->found->items[s->found->n++] = python;
}

static void search_path(struct search *s)
{
        const char *path = getenv("PATH");
        char folder[PATH_MAX];

        for (const char *at = path ? path : "/usr/bin:/bin"; *at;) {
                size_t n = strcspn(at, ":");
                if (*at == '/' &&
                    (size_t)snprintf(folder, sizeof(folder), "%.*s", (int)n, at) < sizeof(folder))
                        for (int minor = s->minor < 0 ? PYTHON_MINOR_MIN : s->minor;
                             minor <= (s->minor < 0 ? LAST_MINOR : s->minor); minor++)
                                add(s, folder, minor, PYTHON_PATCH_ANY);
                at += n + (at[n] == ':');
        }
}

/* Folders "PREFIX3.13.2REST/bin": rest begins with `after`, or is empty if that is '\0'. */
static void search_versions(struct search *s, const char *place, const char *prefix, char after)
{
        DIR *folders = opendir(place);
        size_t n = 0, length = strlen(prefix);
        struct dirent *entry;

        while (folders && n++ < FOLDERS_MAX && (entry = readdir(folders))) {
                char text[32] = "", folder[PATH_MAX];
                struct python_version version;
                if (strncmp(entry->d_name, prefix, length) != 0)
                        continue;
                size_t end = strcspn(entry->d_name + length, (const char[]){after, '\0'});
                if (end >= sizeof(text) || entry->d_name[length + end] != after)
                        continue;
                memcpy(text, entry->d_name + length, end);
                if (python_version_parse(text, &version, NULL) < 0 ||
                    version.patch == PYTHON_PATCH_ANY ||
                    (s->minor >= 0 && version.minor != s->minor))
                        continue;
                if ((size_t)snprintf(folder, sizeof(folder), "%s/%s/bin", place, entry->d_name) <
                    sizeof(folder))
                        add(s, folder, version.minor, version.patch);
        }
        if (folders)
                closedir(folders);
}

static void search(struct pythons *ret, const char *home, int minor)
{
        struct search s = {.found = ret, .minor = minor};
        const char *pyenv = getenv("PYENV_ROOT"), *uv = getenv("UV_PYTHON_INSTALL_DIR");
        const char *data = home ? NULL : getenv("XDG_DATA_HOME");
        char place[PATH_MAX];

        home = home ? home : path_home();
        ret->n = 0;
        search_path(&s);
        if (pyenv && *pyenv == '/')
                snprintf(place, sizeof(place), "%s/versions", pyenv);
        else
                snprintf(place, sizeof(place), "%s/.pyenv/versions", home ? home : "/nonexistent");
        search_versions(&s, place, "", '\0');
        if (uv && *uv == '/')
                search_versions(&s, uv, "cpython-", '-');
        else if (path_in_base(data, home, ".local/share", "uv/python", place, sizeof(place)) == 0)
                search_versions(&s, place, "cpython-", '-');
}

/* ---- the answers ---- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
        return a < b ? a : b;
}

/* Asks one. Returns whether it can be used. */
static bool ask(struct python *python, uid_t owner, uint64_t until)
{
        int minor = python->version.minor;

        int r = python_ask(python->path, owner, earlier(clock_us() + ONE_US, until),
                           &python->version);
        python->is_late = r == -ETIMEDOUT;
        python->is_asked = r > 0 && python->version.minor == minor;
        return python->is_asked;
}

/* The user that interpreters may belong to, beside root. */
static uid_t owner_of(const char *home)
{
        struct stat st;

        return home && stat(home, &st) == 0 ? st.st_uid : geteuid();
}

static void drop(struct pythons *pythons, size_t i)
{
        memmove(&pythons->items[i], &pythons->items[i + 1],
                (--pythons->n - i) * sizeof(pythons->items[0]));
}

/* In the order of the search if two are the same. */
static void sort(struct pythons *pythons)
{
        for (size_t i = 1; i < pythons->n; i++)
                for (size_t k = i; k > 0 && python_version_is_newer(&pythons->items[k].version,
                                                                    &pythons->items[k - 1].version);
                     k--) {
                        struct python other = pythons->items[k];
                        pythons->items[k] = pythons->items[k - 1];
                        pythons->items[k - 1] = other;
                }
}

void pythons_list(const char *home, struct pythons *ret)
{
        uint64_t until = clock_us() + ALL_US;

        uid_t owner = owner_of(home);

        *ret->late = '\0';
        search(ret, home, PYTHON_PATCH_ANY);
        for (size_t i = 0; i < ret->n;) {
                if (ask(&ret->items[i], owner, until)) {
                        i++;
                        continue;
                }
                if (ret->items[i].is_late && !*ret->late)
                        memcpy(ret->late, ret->items[i].path, PYTHON_PATH_SIZE);
                drop(ret, i);
        }
        sort(ret);
}

const struct python *pythons_pick(const struct pythons *found, const struct python_version *wanted)
{
        for (size_t i = 0; i < found->n; i++) {
                const struct python_version *version = &found->items[i].version;
                if (version->minor == wanted->minor &&
                    (wanted->patch == PYTHON_PATCH_ANY || version->patch == wanted->patch))
                        return &found->items[i];
        }
        return NULL;
}

/* The versions of a list: "3.13.0, 3.11.2", each once. */
static void describe(const struct pythons *found, char *ret, size_t size)
{
        size_t n = 0;

        *ret = '\0';
        for (size_t i = 0; i < found->n && n + 16 < size; i++) {
                const struct python_version *v = &found->items[i].version;
                if (i == 0 || memcmp(v, &found->items[i - 1].version, sizeof(*v)) != 0)
                        n += (size_t)snprintf(ret + n, size - n, "%s3.%d.%d", n ? ", " : "",
                                              v->minor, v->patch);
        }
}

/* One whose version is not known may be the newest. */
static size_t best(const struct pythons *pythons)
{
        size_t ret = 0;

        for (size_t i = 0; i < pythons->n; i++) {
                const struct python_version *version = &pythons->items[i].version;
                if (version->patch == PYTHON_PATCH_ANY)
                        return i;
                if (python_version_is_newer(version, &pythons->items[ret].version))
                        ret = i;
        }
        return ret;
}

int pythons_find(const struct python_version *wanted, const char *home, char ret[PYTHON_PATH_SIZE])
{
        _cleanup_free_ struct pythons *pythons = calloc(1, sizeof(*pythons));
        uint64_t until = clock_us() + ALL_US;
        uid_t owner = owner_of(home);

        if (!pythons)
                return 0;
        search(pythons, home, wanted->minor);
        while (pythons->n > 0) {
                size_t i = best(pythons);
                struct python *python = &pythons->items[i];
                bool fits = wanted->patch == PYTHON_PATCH_ANY ||
                            python->version.patch == wanted->patch;
                if (fits && python->is_asked) {
                        memcpy(ret, python->path, PYTHON_PATH_SIZE);
                        return 1;
                }
                if (python->is_asked || !ask(python, owner, until))
                        drop(pythons, i);
        }
        return 0;
}

int pythons_missing(const char *wanted, const struct pythons *found, struct error *err)
{
        _cleanup_free_ struct pythons *own = NULL;
        char text[TEXT_MAX], note[160] = "";

        if (!found) {
                own = calloc(1, sizeof(*own));
                if (!own)
                        return error_errno(err, ENOMEM, "python");
                pythons_list(NULL, own);
                found = own;
        }
        describe(found, text, sizeof(text));
        if (*found->late)
                snprintf(note, sizeof(note), "; %.100s did not answer", found->late);
        return error_set(
                err, ENOENT,
                "Python %s is not on this machine: PATH, pyenv and uv have %s%s; install it ('uv python install %s'), or set \"python_downloads\": \"allow\"",
                wanted, *text ? text : "none that can be used", note, wanted);
}
