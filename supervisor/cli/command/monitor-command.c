/* Makes the paths of a command line absolute, and executes an internal program. */
#include "supervisor/cli/command/monitor-command.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/exit-status.h"
#include "base/program.h"
#include "policy/python-version.h"
#include "supervisor/cli/command/command.h"

int monitor_command_absolute(const char *path, char **ret, struct error *err)
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

static int find_in_path(const char *option, const char *name, char **ret, struct error *err)
{
        const char *search = getenv("PATH");

        for (const char *p = search ? search : "/usr/bin:/bin"; *p;) {
                size_t n = strcspn(p, ":");
                char path[PATH_MAX];
                if (n > 0 && snprintf(path, sizeof(path), "%.*s/%s", (int)n, p, name) < PATH_MAX &&
                    access(path, X_OK) == 0)
                        return monitor_command_absolute(path, ret, err);
                p += n + (p[n] == ':');
        }
        return error_set(err, ENOENT, "%s %s: not found in PATH", option, name);
}

int monitor_command_python(const char *given, char **ret, struct error *err)
{
        char inside[PATH_MAX];
        struct stat st;
        int r;

        /* The image builder and the image reader search for it, as the user that images belong to. */
        if (python_version_is_meant(given)) {
                struct python_version version;
                r = python_version_parse(given, &version, err);
                *ret = r < 0 ? NULL : strdup(given);
                return r < 0 ? r : *ret ? 0 : error_errno(err, ENOMEM, "--python");
        }
        if (!strchr(given, '/') && stat(given, &st) < 0)
                return find_in_path("--python", given, ret, err);
        if (stat(given, &st) < 0)
                return error_errno(err, errno, "--python %s", given);
        if (!S_ISDIR(st.st_mode))
                return strchr(given, '/') ? monitor_command_absolute(given, ret, err)
                                          : find_in_path("--python", given, ret, err);
        if (snprintf(inside, sizeof(inside), "%s/bin/python3", given) >= (int)sizeof(inside))
                return error_errno(err, ENAMETOOLONG, "--python");
        if (access(inside, X_OK) < 0)
                return error_set(
                        err, ENOENT,
                        "--python %s: neither an interpreter nor a virtual environment (no bin/python3)",
                        given);
        return monitor_command_absolute(inside, ret, err);
}

int monitor_command_fd(int fd, struct error *err)
{
        if (fd < 0)
                return fd;
        int high = fcntl(fd, F_DUPFD, OPTION_FD_FIRST);
        close(fd);
        return high < 0 ? error_errno(err, errno, "pass a descriptor on") : high;
}

static int make_absolute(struct monitor_command *h, const char *option, const char **path,
                         struct error *err)
{
        if (!*path)
                return 0;
        char *real = realpath(*path, NULL);
        if (!real)
                return error_errno(err, errno, "%s %s", option, *path);
        assert(h->n_owned < ARRAY_SIZE(h->owned));
        *path = h->owned[h->n_owned++] = real;
        return 0;
}

/* docker://REF, PATH or PATH:TAG. A path may contain a colon itself. */
static int make_oci_absolute(struct monitor_command *h, struct error *err)
{
        static const char registry[] = "docker://";
        const char *given = h->options.oci, *colon = given ? strrchr(given, ':') : NULL;
        char path[PATH_MAX], real[PATH_MAX], *whole;

        if (!given || strncmp(given, registry, sizeof(registry) - 1) == 0)
                return 0;
        if (!colon || access(given, F_OK) == 0 || strlen(given) >= sizeof(path))
                return make_absolute(h, "--oci", &h->options.oci, err);
        snprintf(path, sizeof(path), "%.*s", (int)(colon - given), given);
        if (!realpath(path, real))
                return error_errno(err, errno, "--oci %s", given);
        if (asprintf(&whole, "%s%s", real, colon) < 0)
                return error_errno(err, ENOMEM, "--oci");
        assert(h->n_owned < ARRAY_SIZE(h->owned));
        h->options.oci = h->owned[h->n_owned++] = whole;
        return 0;
}

static int make_all_absolute(struct monitor_command *h, struct error *err)
{
        struct options *o = &h->options;
        char *python = NULL, *node = NULL;
        int r = 0;

        for (size_t i = 0; i < o->n_configs && r >= 0; i++)
                r = make_absolute(h, "--config", &o->configs[i], err);
        /* With --rootfs or --oci it is a path inside that. */
        if (r >= 0 && o->python && !o->rootfs && !o->oci) {
                r = monitor_command_python(o->python, &python, err);
                if (r >= 0)
                        o->python = h->owned[h->n_owned++] = python;
        }
        if (r >= 0 && o->node) {
                r = strchr(o->node, '/') ? monitor_command_absolute(o->node, &node, err)
                                         : find_in_path("--node", o->node, &node, err);
                if (r >= 0)
                        o->node = h->owned[h->n_owned++] = node;
        }
        if (r >= 0)
                r = make_absolute(h, "--pyodide", &o->pyodide, err);
        if (r >= 0)
                r = make_absolute(h, "--find-links", &o->set.find_links, err);
        for (size_t i = 0; i < o->set.n_files && r >= 0; i++)
                r = make_absolute(h, "--requirements", &o->set.files[i], err);
        if (r >= 0)
                r = make_oci_absolute(h, err);
        return r < 0 ? r : make_absolute(h, "--rootfs", &o->rootfs, err);
}

int monitor_command_init(struct monitor_command *command, const struct options *given,
                         struct error *err)
{
        *command = (struct monitor_command){.options = *given};
        int r = make_all_absolute(command, err);
        if (r < 0)
                monitor_command_done(command);
        return r;
}

void monitor_command_done(struct monitor_command *command)
{
        while (command->n_owned > 0)
                free(command->owned[--command->n_owned]);
}

int monitor_command_exec(const struct monitor_command *command, enum option_program program,
                         const char *verb, struct error *err)
{
        const char *name = program == PROGRAM_MONITOR  ? "cloister-monitor"
                           : program == PROGRAM_DOCTOR ? "cloister-doctor"
                                                       : "cloister-oauth";
        struct command_line line;
        char path[PATH_MAX + 32];

        int r = program_path(name, path, sizeof(path), err);
        if (r < 0)
                return r;
        command_line_init(&line, name, verb, &command->options, program);
        execv(path, (char *const *)line.words);
        return error_errno(err, errno, "start %s", path);
}

int monitor_command_leave(const struct options *options, enum option_program program,
                          const char *verb, int status)
{
        struct monitor_command command;
        struct error error = {};

        if (monitor_command_init(&command, options, &error) < 0)
                return cli_fail(status, &error);
        monitor_command_exec(&command, program, verb, &error);
        monitor_command_done(&command);
        /* A filter around Cloister refuses a call: the program itself would name it. */
        if (error.code == EPERM || error.code == ENOSYS || error.code == EINVAL)
                status = EXIT_NO_SANDBOX;
        return cli_fail(status, &error);
}
