/* The one function that creates files on the host. */
#pragma once

#include <sys/types.h>

#include "base/error.h"

struct stat;

#define HOST_FILE(name, flags, mode) HOST_FILE_##name,
enum host_file {
#include "base/host-files.def"
        HOST_FILE_MAX
};
#undef HOST_FILE

/*
 * Creates or opens a file with the flags and the mode of its row, less the umask. Does not follow a link at the
 * end of the path and does not wait. Checks a file that existed as host_file_check() does, and only then
 * truncates it. directory: a descriptor or AT_FDCWD. Returns a descriptor, or negative errno: -ELOOP, it is a
 * link. err has the cause without the path: the caller adds it.
 */
int host_file_open(enum host_file file, int directory, const char *path, struct error *err);

/*
 * Checks that an open file is a regular file of this user with one name, and takes the permissions away that
 * its row does not have. A lock may have other names, and be another user's: nothing is written to it. Returns 0
 * or negative errno: -EINVAL, it is not a regular file; -EPERM, it is another user's or has other names.
 */
int host_file_check(enum host_file file, int fd, uid_t user, struct stat *ret, struct error *err);
