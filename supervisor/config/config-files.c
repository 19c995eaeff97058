/*
 * A snapshot of the config files.
 *
 * Monitor and broker parse the same bytes. An edit has no effect until all files are read again
 * together, so that the indices of servers mean the same in both processes.
 */
#include "supervisor/config/config-files.h"

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
#include "base/path.h"
#include "base/places.h"
#include "policy/config/add.h"
#include "policy/config/keys.h"

struct config_file {
        char *path;
        int fd;
        bool once;   /* a pipe, which cannot be read again */
        size_t code; /* 0: a config file; else of the published entry with this number, from 1 */
        enum config_layer layer; /* of a config file */
};

struct config_files {
        struct config_file items[CONFIG_SNAPSHOT_MAX];
        size_t count, n_configs;
        bool trusted_only;
        enum config_layer layer;           /* of the files that are read */
        const struct config_files *before; /* while reading again, or NULL */
};

/* Whether the file's owner is trusted: in the privileged modes a config names programs that run
 * with more rights than its author may have. */
static int check_trusted(const char *path, const struct stat *st, struct error *err)
{
        if (st->st_uid != 0)
                return error_set(
                        err, EPERM,
                        "%s belongs to uid %u: as root, only root's own files are read; chown root it, or start Cloister as that user",
                        path, st->st_uid);
        if (st->st_mode & (S_IWGRP | S_IWOTH))
                return error_set(err, EPERM, "%s can be written by others than root: chmod go-w it",
                                 path);
        return 0;
}

static const struct config_file *find(const struct config_files *files, const char *path)
{
        for (size_t i = 0; files && i < files->count; i++)
                if (strcmp(files->items[i].path, path) == 0)
                        return &files->items[i];
        return NULL;
}

static int open_file(const char *path, bool trusted_only, bool *once, struct error *err)
{
        struct stat st;
        /* O_NONBLOCK: opening a named pipe must not block. */
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

        if (fd < 0 || fstat(fd, &st) < 0)
                return error_errno(err, errno, "%s", path);
        if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
                return error_set(err, EINVAL, "%s is neither a file nor a pipe", path);
        int r = trusted_only ? check_trusted(path, &st, err) : 0;
        if (r < 0)
                return r;
        /* `--config <(jq …)`: read until end of file. */
        *once = S_ISFIFO(st.st_mode);
        if (*once)
                r = fd_set_nonblocking(fd, 0);
        return r < 0 ? error_errno(err, -r, "%s", path) : take_fd(fd);
}

/* Reads a sealed copy. pread(): the broker shares its offset. */
static int read_copy(int fd, char **ret, size_t *length, struct error *err)
{
        struct stat st;
        _cleanup_free_ char *data = NULL;

        if (fstat(fd, &st) < 0)
                return error_errno(err, errno, "fstat");
        data = malloc((size_t)st.st_size + 1);
        if (!data)
                return error_errno(err, ENOMEM, "read");
        if (pread(fd, data, (size_t)st.st_size, 0) != st.st_size)
                return error_set(err, EIO, "cannot be read again");
        *ret = take_ptr(data);
        *length = (size_t)st.st_size;
        return 0;
}

static int read_file(const struct config_files *files, const char *path, bool *once, char **ret,
                     size_t *length, struct error *err)
{
        const struct config_file *before = find(files->before, path);

        *once = before && before->once;
        if (*once)
                return read_copy(before->fd, ret, length, err);
        _cleanup_close_ int source = open_file(path, files->trusted_only, once, err);
        if (source < 0)
                return source;
        int r = fd_read_whole(source, CONFIG_FILE_SIZE_MAX, ret, length, err);
        return r < 0 ? error_context(err, "%s", path) : 0;
}

int config_files_read(const char *path, bool trusted_only, char **ret, size_t *length,
                      struct error *err)
{
        const struct config_files files = {.trusted_only = trusted_only};
        bool once;

        return read_file(&files, path, &once, ret, length, err);
}

/* The path of a published entry's code: relative to the config file that names it. */
static int code_path(const char *config_path, const char *file, char ret[PATH_MAX])
{
        const char *slash = strrchr(config_path, '/'), *home = path_home();
        int n;

        if (file[0] == '/')
                n = snprintf(ret, PATH_MAX, "%s", file);
        else if (file[0] == '~' && file[1] == '/' && home)
                n = snprintf(ret, PATH_MAX, "%s%s", home, file + 1);
        else
                n = snprintf(ret, PATH_MAX, "%.*s%s", slash ? (int)(slash + 1 - config_path) : 0,
                             config_path, file);
        return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Reads the code of one published entry and stores it. */
static int read_code(struct config_files *files, const char *path, size_t index,
                     struct config *config, struct error *err)
{
        _cleanup_free_ char *data = NULL, *name = strdup(path);
        size_t length = 0;
        bool once;

        if (!name)
                return error_errno(err, ENOMEM, "%s", path);
        int r = read_file(files, path, &once, &data, &length, err);
        if (r < 0)
                return r;
        _cleanup_close_ int sealed = fd_sealed("cloister-code", data, length, err);
        if (sealed < 0)
                return error_context(err, "%s", path);
        r = config_set_code(config, index, data, length, err);
        if (r < 0)
                return r;
        files->items[files->count++] = (struct config_file){
                .path = take_ptr(name), .fd = take_fd(sealed), .once = once, .code = index + 1};
        return 0;
}

/* The code of the published entries from a number on, which a config file has added. An entry
 * without its code is not offered. */
static int add_code(struct config_files *files, const char *config_path, size_t from,
                    struct config *config, struct error *err)
{
        for (size_t i = from; i < config->n_published; i++) {
                const struct config_published *p = &config->published[i];
                _cleanup_free_ char *text = NULL;
                char path[PATH_MAX];
                struct error why = {};

                if (!p->file)
                        continue;
                if (code_path(config_path, p->file, path) < 0)
                        error_set(&why, ENAMETOOLONG, "%s: the path is too long", p->file);
                else if (read_code(files, path, i, config, &why) >= 0)
                        continue;
                if (asprintf(&text, "%s: publish: %s \"%s\" is not offered: %s", config_path,
                             config_published_kind_name(p->kind), p->name, why.text) < 0) {
                        text = NULL;
                        return error_errno(err, ENOMEM, "%s", config_path);
                }
                if (!config_report(config, true, text))
                        log_warning("%s", text);
        }
        return 0;
}

/* Parses and stores the bytes of one file. On failure no part of it is stored. */
static int add_bytes(struct config_files *files, const char *path, const char *data, size_t length,
                     bool once, struct config *config, struct error *err)
{
        _cleanup_free_ char *name = strdup(path);
        size_t before = config->n_published;
        int r;

        if (!name)
                return error_errno(err, ENOMEM, "%s", path);
        if (files->n_configs == CONFIG_FILES_MAX)
                return error_set(err, E2BIG, "%s: more than %d config files", path,
                                 CONFIG_FILES_MAX);
        _cleanup_close_ int sealed = fd_sealed("cloister-config", data, length, err);
        if (sealed < 0)
                return error_context(err, "%s", path);
        r = config_add_layer(config, files->layer, path, data, length, err);
        if (r < 0)
                return r;
        files->items[files->count++] = (struct config_file){
                .path = take_ptr(name), .fd = take_fd(sealed), .once = once, .layer = files->layer};
        files->n_configs++;
        return add_code(files, path, before, config, err);
}

static int add_file(struct config_files *files, const char *path, struct config *config,
                    struct error *err)
{
        _cleanup_free_ char *data = NULL;
        size_t length;
        bool once;

        int r = read_file(files, path, &once, &data, &length, err);
        return r < 0 ? r : add_bytes(files, path, data, length, once, config, err);
}

/* A layer that `cloister` has made and sealed. It is the same at each reading. */
static int add_sealed(struct config_files *files, int fd, const char *name, struct config *config,
                      struct error *err)
{
        _cleanup_free_ char *data = NULL;
        size_t length;

        if (fd < 0)
                return 0;
        int r = read_copy(fd, &data, &length, err);
        return r < 0 ? error_context(err, "%s", name)
                     : add_bytes(files, name, data, length, false, config, err);
}

static int is_json_name(const struct dirent *entry)
{
        size_t n = strlen(entry->d_name);

        return entry->d_name[0] != '.' && n > 5 && strcmp(entry->d_name + n - 5, ".json") == 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
        /* Not alphasort(), whose order depends on the locale. */
        return strcmp((*a)->d_name, (*b)->d_name);
}

int config_files_scan(const char *path, struct dirent ***ret)
{
        return scandir(path, ret, is_json_name, by_bytes);
}

/* A file that was valid before and is broken now is an error: skipping it would remove its
 * servers. */
static int add_from_directory(struct config_files *files, const char *directory, const char *name,
                              struct config *config, struct error *err)
{
        char path[PATH_MAX];
        struct error error = {0};

        if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, name) >= sizeof(path))
                return 0;
        int r = add_file(files, path, config, &error);
        if (r < 0 && find(files->before, path) && r != -ENOENT)
                return error_set(err, -r, "%s", error.text);
        if (r < 0 && !config_report(config, true, error.text))
                log_error("%s; the file is skipped", error.text);
        return 0;
}

static int add_directory(struct config_files *files, const char *path, struct config *config,
                         struct error *err)
{
        struct dirent **entries;
        int n = config_files_scan(path, &entries), r = 0;

        if (n < 0)
                return error_errno(err, errno, "%s", path);
        if (n == 0)
                log_warning("%s: no *.json in this directory", path);
        for (int i = 0; i < n; i++) {
                if (r >= 0)
                        r = add_from_directory(files, path, entries[i]->d_name, config, err);
                free(entries[i]);
        }
        free(entries);
        return r;
}

static int add_named(struct config_files *files, const char *path, struct config *config,
                     struct error *err)
{
        const struct config_file *before = find(files->before, path);
        struct stat st;

        if (before && before->once)
                return add_file(files, path, config, err);
        if (stat(path, &st) < 0)
                return error_errno(err, errno, "%s", path);
        if (S_ISDIR(st.st_mode))
                return add_directory(files, path, config, err);
        return add_file(files, path, config, err);
}

bool config_files_user_path(char *ret, size_t size)
{
        return place_config("config.json", ret, size) == 0;
}

static int add_default(struct config_files *files, struct config *config, struct error *err)
{
        char path[PATH_MAX];

        if (config_files_user_path(path, sizeof(path)) && access(path, F_OK) == 0)
                return add_file(files, path, config, err);
        if (access(CONFIG_SYSTEM_PATH, F_OK) == 0)
                return add_file(files, CONFIG_SYSTEM_PATH, config, err);
        return 0;
}

/* The directory of the other system: one that does not exist has no servers. */
static int add_servers(struct config_files *files, const char *path, struct config *config,
                       struct error *err)
{
        struct stat st;

        files->layer = CONFIG_LAYER_SERVERS;
        if (!path || (stat(path, &st) < 0 && errno == ENOENT))
                return 0;
        if (!S_ISDIR(st.st_mode))
                return error_set(err, ENOTDIR, "%s is not a directory", path);
        return add_directory(files, path, config, err);
}

int config_files_open(const char *const *paths, size_t n, bool trusted_only,
                      const struct config_files *before, struct config *config,
                      struct config_files **ret, struct error *err)
{
        return config_files_open_layers(paths, n, NULL, trusted_only, before, config, ret, err);
}

int config_files_open_layers(const char *const *paths, size_t n, const struct config_layers *layers,
                             bool trusted_only, const struct config_files *before,
                             struct config *config, struct config_files **ret, struct error *err)
{
        struct config_files *files = calloc(1, sizeof(*files));
        int r = 0;

        if (!files)
                return error_errno(err, ENOMEM, "config");
        files->trusted_only = trusted_only;
        files->before = before;
        files->layer = CONFIG_LAYER_TABLE;
        if (layers)
                r = add_sealed(files, layers->table_fd, layers->table, config, err);
        files->layer = CONFIG_LAYER_USER;
        if (n == 0 && r >= 0)
                r = add_default(files, config, err);
        for (size_t i = 0; i < n && r >= 0; i++)
                r = add_named(files, paths[i], config, err);
        if (layers && r >= 0)
                r = add_servers(files, layers->servers, config, err);
        files->layer = CONFIG_LAYER_SETTINGS;
        if (layers && r >= 0)
                r = add_sealed(files, layers->settings_fd, "the command line and the environment",
                               config, err);
        if (r < 0) {
                config_files_free(files);
                return error_context(err, "config");
        }
        files->before = NULL;
        *ret = files;
        return 0;
}

static bool same_bytes(int a, int b)
{
        _cleanup_free_ char *one = NULL, *other = NULL;
        size_t n = 0, m = 0;

        return read_copy(a, &one, &n, NULL) >= 0 && read_copy(b, &other, &m, NULL) >= 0 && n == m &&
               memcmp(one, other, n) == 0;
}

bool config_files_same(const struct config_files *a, const struct config_files *b)
{
        bool same = a->count == b->count;

        for (size_t i = 0; same && i < a->count; i++)
                same = strcmp(a->items[i].path, b->items[i].path) == 0 &&
                       a->items[i].code == b->items[i].code &&
                       a->items[i].layer == b->items[i].layer &&
                       same_bytes(a->items[i].fd, b->items[i].fd);
        return same;
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

size_t config_files_code(const struct config_files *files, size_t i)
{
        return files->items[i].code;
}

enum config_layer config_files_layer(const struct config_files *files, size_t i)
{
        return files->items[i].layer;
}

int config_files_fd(const struct config_files *files, size_t i)
{
        return files->items[i].fd;
}
