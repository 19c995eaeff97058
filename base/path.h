/* Files and directories by path. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Makes a directory, and those above it, with this mode less the umask. Those that exist stay as
 * they are. Returns 0 or negative errno. */
int path_make_directories(const char *path, mode_t mode);

/* The same without the last name: the directory that path is in. */
int path_make_parents(const char *path, mode_t mode);

/*
 * A path in one of the user's directories as the XDG Base Directory Specification has them: BASE/below,
 * else HOME/fallback/below (".config"). base (a variable's value) and home may be NULL; a relative
 * one is ignored. Returns 0, -ENOENT: neither can be used, or -ENAMETOOLONG.
 */
int path_in_base(const char *base, const char *home, const char *fallback, const char *below,
                 char *ret, size_t size);

/* Whether it is absolute, without "." and ".." members, without "//" and without a slash at its end. */
bool path_is_clean(const char *path);

/* $HOME, else the home directory of the user; NULL: neither is known. */
const char *path_home(void);

/* Like path_in_base(), with the environment: variable names the base, "XDG_CONFIG_HOME". */
int path_in_user_directory(const char *variable, const char *fallback, const char *below, char *ret,
                           size_t size);

/* Unlinks a file, and removes its directory when it is empty then. A missing file is not an error. */
void path_remove_with_directory(const char *path);
