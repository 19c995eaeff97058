/* Builds the command line of cloister-monitor or cloister-doctor, and execs it. */
#include "supervisor/cli/monitor-command.h"

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
#include "cloister-config.h"
#include "supervisor/cli/commands.h"
#include "supervisor/cli/fail.h"

/* Resolves the directory, but not the file: a virtual environment's interpreter is a symbolic link,
 * and its own path tells that it is one. */
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

int monitor_command_python(const char *given, char **ret, struct error *err)
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
                        "--python %s: neither an interpreter nor a virtual environment (no bin/python3)",
                        given);
        return absolute(inside, ret, err);
}

void monitor_command_add(struct monitor_command *command, const char *word)
{
        assert(command->n < MONITOR_COMMAND_WORDS_MAX);
        command->words[command->n++] = word;
        command->words[command->n] = NULL;
}

void monitor_command_add_option(struct monitor_command *command, const char *option,
                                const char *value)
{
        if (!value)
                return;
        monitor_command_add(command, option);
        monitor_command_add(command, value);
}

int monitor_command_fd(int fd, struct error *err)
{
        if (fd < 0)
                return fd;
        int high = fcntl(fd, F_DUPFD, MONITOR_COMMAND_FD_FIRST);
        close(fd);
        return high < 0 ? error_errno(err, errno, "pass a descriptor on") : high;
}

void monitor_command_pass(struct monitor_command *command, int fd, char number[16])
{
        snprintf(number, 16, "%d", fd);
        if (fd >= 0)
                monitor_command_add_option(command, "--pass-fd", number);
}

static int add_configs(struct monitor_command *h, const struct cli_options *options,
                       struct error *err)
{
        for (size_t i = 0; i < options->n_configs; i++) {
                char *path = realpath(options->configs[i], NULL);
                if (!path)
                        return error_errno(err, errno, "--config %s", options->configs[i]);
                h->owned[h->n_owned++] = path;
                monitor_command_add_option(h, "--config", path);
        }
        return 0;
}

static int add_python(struct monitor_command *h, const char *given, bool inside, struct error *err)
{
        char *python = NULL;

        if (inside)
                monitor_command_add_option(h, "--python", given);
        if (!given || inside)
                return 0;
        int r = monitor_command_python(given, &python, err);
        if (r < 0)
                return r;
        h->owned[h->n_owned++] = python;
        monitor_command_add_option(h, "--python", python);
        return 0;
}

static int add_real_path(struct monitor_command *h, const char *option, const char *given,
                         struct error *err)
{
        char *path = given ? realpath(given, NULL) : NULL;

        if (given && !path)
                return error_errno(err, errno, "%s %s", option, given);
        if (path)
                h->owned[h->n_owned++] = path;
        monitor_command_add_option(h, option, path);
        return 0;
}

static int add_packages(struct monitor_command *h, const struct package_set *set, struct error *err)
{
        int r = add_real_path(h, "--find-links", set->find_links, err);

        for (size_t i = 0; i < set->n_with; i++)
                monitor_command_add_option(h, "--with", set->with[i]);
        for (size_t i = 0; i < set->n_files && r >= 0; i++)
                r = add_real_path(h, "--requirements", set->files[i], err);
        monitor_command_add_option(h, "--files-key", set->files_key);
        monitor_command_add_option(h, "--installer", set->installer);
        if (set->offline)
                monitor_command_add(h, "--offline");
        if (set->upgrade)
                monitor_command_add(h, "--upgrade");
        return r;
}

int monitor_command_init(struct monitor_command *command, const char *program, const char *verb,
                         const struct cli_options *options, struct error *err)
{
        *command = (struct monitor_command){};
        monitor_command_add(command, program);
        if (verb)
                monitor_command_add(command, verb);
        int r = add_configs(command, options, err);
        if (r >= 0)
                r = add_python(command, options->python, options->rootfs, err);
        if (r >= 0)
                r = add_packages(command, &options->set, err);
        if (r >= 0)
                r = add_real_path(command, "--rootfs", options->rootfs, err);
        if (r < 0) {
                monitor_command_done(command);
                return r;
        }
        monitor_command_add_option(command, "--image", options->image);
        monitor_command_add_option(command, "--profile", options->profile);
        monitor_command_add_option(command, "--name", options->name);
        monitor_command_add_option(command, "--link", options->link);
        monitor_command_add_option(command, "--store", options->store);
        monitor_command_add_option(command, "--log-level", options->log_level);
        monitor_command_add_option(command, "--log-file", options->log_file);
        monitor_command_add_option(command, "--log-format", options->log_format);
        return 0;
}

void monitor_command_done(struct monitor_command *command)
{
        while (command->n_owned > 0)
                free(command->owned[--command->n_owned]);
}

int monitor_command_exec(struct monitor_command *command, struct error *err)
{
        char path[PATH_MAX + 32];

        int r = program_path(command->words[0], path, sizeof(path), err);
        if (r < 0)
                return r;
        execv(path, (char *const *)command->words);
        return error_errno(err, errno, "start %s", path);
}

int monitor_command_leave(struct monitor_command *command, int status)
{
        struct error error = {};

        monitor_command_exec(command, &error);
        monitor_command_done(command);
        /* A call is refused, by what surrounds Cloister: the program itself would name it. */
        if (error.code == EPERM || error.code == ENOSYS || error.code == EINVAL)
                status = EXIT_NO_SANDBOX;
        return cli_fail(status, &error);
}
