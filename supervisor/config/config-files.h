/*
 * A snapshot of the config files, each followed by the files of code that it publishes: each a sealed
 * memfd, which the broker parses again from the same bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "policy/config/config.h"

struct config_files;
struct dirent;

/*
 * Opens what --config named: files, or directories whose *.json are taken sorted by name. With
 * none, $CONFIGURATION_DIRECTORY/config.json or $XDG_CONFIG_HOME/cloister/config.json, else /etc/cloister/config.json, else nothing. Each
 * file that is taken was added to config, in order, so that the indices of servers agree with the
 * broker's.
 *
 * trusted_only (root and capable mode): a file must belong to root and be writable by root only. A
 * file that is broken or refused is an error when it was named itself; in a directory it is skipped
 * and logged.
 *
 * before: NULL at the first reading. At a later one, the files of the previous reading: the content
 * of a pipe is taken from them, and a file of a directory that was valid then and is invalid now is
 * an error.
 */
int config_files_open(const char *const *paths, size_t n, bool trusted_only,
                      const struct config_files *before, struct config *config,
                      struct config_files **ret, struct error *err);

/* Config files that `cloister` has made of --as and --network (docs/as.md). All is borrowed. */
struct config_layers {
        int table_fd, settings_fd; /* sealed memfds; -1: none */
        const char *table;         /* the path of the table, for messages; or NULL */
        const char *servers; /* a directory whose files count for their servers only; or NULL */
};

/* As config_files_open(), with the other layers (enum config_layer). layers may be NULL. */
int config_files_open_layers(const char *const *paths, size_t n, const struct config_layers *layers,
                             bool trusted_only, const struct config_files *before,
                             struct config *config, struct config_files **ret, struct error *err);
struct config_files *config_files_free(struct config_files *files);

/* Reads one file as config_files_open() does, without parsing it. *ret is owned by the caller, NUL-terminated beyond
 * its length. */
int config_files_read(const char *path, bool trusted_only, char **ret, size_t *length,
                      struct error *err);

/* Whether both name the same files with the same bytes. */
bool config_files_same(const struct config_files *a, const struct config_files *b);

#define CONFIG_SYSTEM_PATH "/etc/cloister/config.json"

/* Lists the *.json of a directory, sorted by bytes, as scandir(3). */
int config_files_scan(const char *path, struct dirent ***ret);

/* The path of the user's own file, or the service's. False: none of CONFIGURATION_DIRECTORY, XDG_CONFIG_HOME and HOME is set. */
bool config_files_user_path(char *ret, size_t size);

size_t config_files_count(const struct config_files *files);
const char *config_files_path(const struct config_files *files, size_t i); /* for messages */
/* 0: it is a config file; else the code of the published entry with this number, from 1. */
size_t config_files_code(const struct config_files *files, size_t i);
enum config_layer config_files_layer(const struct config_files *files, size_t i);
int config_files_fd(const struct config_files *files, size_t i); /* borrowed, at offset 0 */
