/* Files and directories by path, and who they belong to. */
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

enum { OWNER_TEXT_SIZE = 64, OWNER_NAME_SIZE = 81 };

/* "root", "uid 5 (games)", "uid 5". */
void owner_describe(uid_t uid, char ret[OWNER_TEXT_SIZE]);

struct owner_difference {
        char name[OWNER_NAME_SIZE];          /* printable; "": the directory itself */
        char found[OWNER_TEXT_SIZE];         /* as owner_describe() has it */
        char expected[OWNER_TEXT_SIZE];      /* name of the requested owner */
        char expected_name[OWNER_TEXT_SIZE]; /* as a command takes it: "root", "games", "5" */
};

/*
 * Looks whether a directory belongs to uid, and each name that is directly in it (links are not
 * followed). directory: any descriptor of it, O_PATH too. Returns 0 if all do, 1 and the first one
 * that does not, or negative errno.
 */
int owner_compare(int directory, uid_t uid, struct owner_difference *ret);
