/*
 * The config files, opened once.
 *
 * What is read here is what everybody sees: a file that is edited later changes nothing in a
 * running Cloister, so that the broker's idea of a server and the monitor's cannot drift apart.
 */
#include "supervisor/monitor/config-files.h"

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
#include "base/fd.h"
#include "base/log.h"

struct config_file {
        char *path;
        int fd;
};

struct config_files {
        struct config_file items[CONFIG_FILES_MAX];
        size_t count;
        bool trusted_only;
};

/* Whose word counts: in the privileged modes a config names programs that run with more than their
 * author's rights. */
static int check_trusted(const char *path, const struct stat *st, struct error *err)
{
        if (st->st_uid != 0)
                return error_set(err, EPERM,
                                 "%s belongs to uid %u: as root, only root's own files are read; "
                                 "chown root it, or start Cloister as that user",
                                 path, st->st_uid);
        if (st->st_mode & (S_IWGRP | S_IWOTH))
                return error_set(err, EPERM, "%s can be written by others than root: chmod go-w it",
                                 path);
        return 0;
}

static int open_file(const char *path, bool trusted_only, struct error *err)
{
        struct stat st;
        /* Not blocking: a named pipe in a directory must not hold us up. */
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

        if (fd < 0 || fstat(fd, &st) < 0)
                return error_errno(err, errno, "%s", path);
        if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
                return error_set(err, EINVAL, "%s is neither a file nor a pipe", path);
        int r = trusted_only ? check_trusted(path, &st, err) : 0;
        if (r < 0)
                return r;
        /* `--config <(jq …)`: read to its end. */
        if (S_ISFIFO(st.st_mode))
                r = fd_set_nonblocking(fd, 0);
        return r < 0 ? error_errno(err, -r, "%s", path) : take_fd(fd);
}

/* Reads, parses and keeps one file. Takes nothing of it when that fails. */
static int add_file(struct config_files *files, const char *path, struct config *config,
                    struct error *err)
{
        _cleanup_free_ char *data = NULL, *name = strdup(path);
        size_t length;

        if (!name)
                return error_errno(err, ENOMEM, "%s", path);
        if (files->count == CONFIG_FILES_MAX)
                return error_set(err, E2BIG, "%s: more than %d config files", path,
                                 CONFIG_FILES_MAX);
        _cleanup_close_ int source = open_file(path, files->trusted_only, err);
        if (source < 0)
                return source;
        int r = fd_read_whole(source, CONFIG_FILE_SIZE_MAX, &data, &length, err);
        if (r < 0)
                return error_context(err, "%s", path);
        _cleanup_close_ int sealed = fd_sealed("cloister-config", data, length, err);
        if (sealed < 0)
                return error_context(err, "%s", path);
        r = config_add(config, path, data, length, err);
        if (r < 0)
                return r;
        files->items[files->count++] = (struct config_file){take_ptr(name), take_fd(sealed)};
        return 0;
}

static int is_json_name(const struct dirent *entry)
{
        size_t n = strlen(entry->d_name);

        return entry->d_name[0] != '.' && n > 5 && strcmp(entry->d_name + n - 5, ".json") == 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
        /* Not alphasort(): the order must not depend on the locale. */
        return strcmp((*a)->d_name, (*b)->d_name);
}

static void add_from_directory(struct config_files *files, const char *directory, const char *name,
                               struct config *config)
{
        char path[PATH_MAX];
        struct error error = {0};

        if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, name) >= sizeof(path))
                return;
        if (add_file(files, path, config, &error) < 0)
                log_error("%s; the file is skipped", error.text);
}

static int add_directory(struct config_files *files, const char *path, struct config *config,
                         struct error *err)
{
        struct dirent **entries;
        int n = scandir(path, &entries, is_json_name, by_bytes);

        if (n < 0)
                return error_errno(err, errno, "%s", path);
        if (n == 0)
                log_warning("%s: no *.json in this directory", path);
        for (int i = 0; i < n; i++) {
                add_from_directory(files, path, entries[i]->d_name, config);
                free(entries[i]);
        }
        free(entries);
        return 0;
}

static int add_named(struct config_files *files, const char *path, struct config *config,
                     struct error *err)
{
        struct stat st;

        if (stat(path, &st) < 0)
                return error_errno(err, errno, "%s", path);
        if (S_ISDIR(st.st_mode))
                return add_directory(files, path, config, err);
        return add_file(files, path, config, err);
}

/* The user's own file. Returns false where there is no place for one. */
static bool user_path(char *ret, size_t size)
{
        const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
        int n;

        /* A relative path is to be ignored (XDG Base Directory Specification). */
        if (base && base[0] == '/')
                n = snprintf(ret, size, "%s/cloister/config.json", base);
        else if (home && home[0] == '/')
                n = snprintf(ret, size, "%s/.config/cloister/config.json", home);
        else
                return false;
        return n > 0 && (size_t)n < size;
}

static int add_default(struct config_files *files, struct config *config, struct error *err)
{
        static const char system_path[] = "/etc/cloister/config.json";
        char path[PATH_MAX];

        if (user_path(path, sizeof(path)) && access(path, F_OK) == 0)
                return add_file(files, path, config, err);
        if (access(system_path, F_OK) == 0)
                return add_file(files, system_path, config, err);
        return 0;
}

int config_files_open(const char *const *paths, size_t n, bool trusted_only, struct config *config,
                      struct config_files **ret, struct error *err)
{
        struct config_files *files = calloc(1, sizeof(*files));
        int r = 0;

        if (!files)
                return error_errno(err, ENOMEM, "config");
        files->trusted_only = trusted_only;
        if (n == 0)
                r = add_default(files, config, err);
        for (size_t i = 0; i < n && r >= 0; i++)
                r = add_named(files, paths[i], config, err);
        if (r < 0) {
                config_files_free(files);
                return error_context(err, "config");
        }
        *ret = files;
        return 0;
}

struct config_files *config_files_free(struct config_files *files)
{
        if (!files)
                return NULL;
        for (size_t i = 0; i < files->count; i++) {
                free(files->items[i].path);
                close(files->items[i].fd);
        }
        free(files);
        return NULL;
}

size_t config_files_count(const struct config_files *files)
{
        return files->count;
}

const char *config_files_path(const struct config_files *files, size_t i)
{
        return files->items[i].path;
}

int config_files_fd(const struct config_files *files, size_t i)
{
        return files->items[i].fd;
}
