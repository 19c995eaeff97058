/* Handing over to cloister-monitor. */
#include "supervisor/cli/handover.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cloister-config.h"

/* Keeps links: which of two names of one interpreter is used decides whether it is a virtual
 * environment's. Only the directory is made canonical. */
static int absolute(const char *path, char **ret, struct error *err)
{
        char folder[PATH_MAX], real[PATH_MAX];
        const char *slash = strrchr(path, '/');

        if (snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path + 1) : 1,
                     slash ? path : ".") >= (int)sizeof(folder))
                return error_errno(err, ENAMETOOLONG, "%.100s…", path);
        if (!realpath(folder, real))
                return error_errno(err, errno, "%s", path);
        if (asprintf(ret, "%s/%s", strcmp(real, "/") == 0 ? "" : real, slash ? slash + 1 : path) <
            0)
                return error_errno(err, ENOMEM, "%s", path);
        return 0;
}

static int find_in_path(const char *name, char **ret, struct error *err)
{
        const char *search = getenv("PATH");

        for (const char *p = search ? search : "/usr/bin:/bin"; *p;) {
                size_t n = strcspn(p, ":");
                char path[PATH_MAX];
                if (n > 0 && snprintf(path, sizeof(path), "%.*s/%s", (int)n, p, name) < PATH_MAX &&
                    access(path, X_OK) == 0)
                        return absolute(path, ret, err);
                p += n + (p[n] == ':');
        }
        return error_set(err, ENOENT, "--python %s: not found in PATH", name);
}

int handover_python(const char *given, char **ret, struct error *err)
{
        char inside[PATH_MAX];
        struct stat st;

        if (!strchr(given, '/') && stat(given, &st) < 0)
                return find_in_path(given, ret, err);
        if (stat(given, &st) < 0)
                return error_errno(err, errno, "--python %s", given);
        if (!S_ISDIR(st.st_mode))
                return strchr(given, '/') ? absolute(given, ret, err)
                                          : find_in_path(given, ret, err);
        if (snprintf(inside, sizeof(inside), "%s/bin/python3", given) >= (int)sizeof(inside))
                return error_errno(err, ENAMETOOLONG, "--python");
        if (access(inside, X_OK) < 0)
                return error_set(
                        err, ENOENT,
                        "--python %s: neither an interpreter nor a virtual environment (no "
                        "bin/python3)",
                        given);
        return absolute(inside, ret, err);
}

void handover_add(struct handover *handover, const char *word)
{
        assert(handover->n < HANDOVER_WORDS_MAX);
        handover->words[handover->n++] = word;
        handover->words[handover->n] = NULL;
}

void handover_add_option(struct handover *handover, const char *option, const char *value)
{
        if (!value)
                return;
        handover_add(handover, option);
        handover_add(handover, value);
}

static int add_configs(struct handover *h, const struct cli_options *options, struct error *err)
{
        for (size_t i = 0; i < options->n_configs; i++) {
                char *path = realpath(options->configs[i], NULL);
                if (!path)
                        return error_errno(err, errno, "--config %s", options->configs[i]);
                h->owned[h->n_owned++] = path;
                handover_add_option(h, "--config", path);
        }
        return 0;
}

static int add_python(struct handover *h, const char *given, bool inside, struct error *err)
{
        char *python = NULL;

        if (inside)
                handover_add_option(h, "--python", given);
        if (!given || inside)
                return 0;
        int r = handover_python(given, &python, err);
        if (r < 0)
                return r;
        h->owned[h->n_owned++] = python;
        handover_add_option(h, "--python", python);
        return 0;
}

static int add_real_path(struct handover *h, const char *option, const char *given,
                         struct error *err)
{
        char *path = given ? realpath(given, NULL) : NULL;

        if (given && !path)
                return error_errno(err, errno, "%s %s", option, given);
        if (path)
                h->owned[h->n_owned++] = path;
        handover_add_option(h, option, path);
        return 0;
}

static int add_packages(struct handover *h, const struct package_set *set, struct error *err)
{
        int r = add_real_path(h, "--find-links", set->find_links, err);

        for (size_t i = 0; i < set->n_with; i++)
                handover_add_option(h, "--with", set->with[i]);
        for (size_t i = 0; i < set->n_files && r >= 0; i++)
                r = add_real_path(h, "--requirements", set->files[i], err);
        handover_add_option(h, "--installer", set->installer);
        if (set->offline)
                handover_add(h, "--offline");
        if (set->upgrade)
                handover_add(h, "--upgrade");
        return r;
}

int handover_init(struct handover *handover, const char *verb, const struct cli_options *options,
                  struct error *err)
{
        *handover = (struct handover){};
        handover_add(handover, "cloister-monitor");
        handover_add(handover, verb);
        int r = add_configs(handover, options, err);
        if (r >= 0)
                r = add_python(handover, options->python, options->rootfs, err);
        if (r >= 0)
                r = add_packages(handover, &options->set, err);
        if (r >= 0)
                r = add_real_path(handover, "--rootfs", options->rootfs, err);
        if (r < 0) {
                handover_done(handover);
                return r;
        }
        handover_add_option(handover, "--image", options->image);
        handover_add_option(handover, "--profile", options->profile);
        handover_add_option(handover, "--name", options->name);
        handover_add_option(handover, "--link", options->link);
        handover_add_option(handover, "--store", options->store);
        handover_add_option(handover, "--log-level", options->log_level);
        handover_add_option(handover, "--log-file", options->log_file);
        handover_add_option(handover, "--log-format", options->log_format);
        return 0;
}

void handover_done(struct handover *handover)
{
        while (handover->n_owned > 0)
                free(handover->owned[--handover->n_owned]);
}

int handover_find(const char *name, char *ret, size_t size, struct error *err)
{
        char self[PATH_MAX];

        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        self[n > 0 ? n : 0] = '\0';
        char *slash = strrchr(self, '/');
        if (slash) {
                *slash = '\0';
                if ((size_t)snprintf(ret, size, "%s/%s", self, name) < size &&
                    access(ret, X_OK) == 0)
                        return 0;
        }
        snprintf(ret, size, "%s/%s", CLOISTER_LIBEXECDIR, name);
        if (access(ret, X_OK) == 0)
                return 0;
        return error_set(err, ENOENT, "%s is neither in %s nor in %s: install Cloister whole", name,
                         self, CLOISTER_LIBEXECDIR);
}

int handover_exec(struct handover *handover, struct error *err)
{
        char path[PATH_MAX + 32];

        int r = handover_find("cloister-monitor", path, sizeof(path), err);
        if (r < 0)
                return r;
        execv(path, (char *const *)handover->words);
        return error_errno(err, errno, "start %s", path);
}
