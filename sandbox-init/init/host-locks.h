/*
 * Locks of files in directories of the host whose mount allows them ("locks": true of a mount in a profile): programs of the host and
 * other sessions meet them.
 *
 * init has each such file open itself: an open file description lock (fcntl_locking(2)) belongs to init's description, so
 * that it ends with init, and no process of the session can use, duplicate or inspect it. All processes of the
 * session have one description together: init's table decides between them, and the kernel between the session and others.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "sandbox-init/lock-table.h"

enum {
        HOST_LOCKS_FILES_MAX = 64, /* of a session, that have locks at one time */
        HOST_LOCKS_MAX = 256,      /* of a session: every list of locks of the machine shows them */
};

/* hello: copied. */
void host_locks_open(const struct init_hello *hello);

/* Whether it is a regular file or a directory, opened through a mount that allows locks. The id of a mount is the kernel's: code cannot
 * choose it, and its namespaces have no further mounts. */
bool host_locks_allow(int fd, const struct stat *st);

/* Takes a lock of type F_RDLCK or F_WRLCK, which no lock in init's table excludes, for the file of fd. Returns -EAGAIN if a program
 * outside excludes it, or -ENOLCK, also if the whole table, locks, has no room. */
int host_locks_take(int fd, const struct file_lock *wanted, const struct file_lock *locks,
                    size_t n);

/* Whether two more of them fit. */
bool host_locks_have_room(const struct file_lock *locks, size_t n);

/* As F_GETLK, for what is outside. */
void host_locks_get(int fd, const struct file_lock *wanted, struct flock *ret);

/* Releases the range except where one of these locks, the whole table, remains. */
void host_locks_release(const struct file_lock *range, const struct file_lock *locks, size_t n);

/* Closes the files of which the table has no lock, and so releases them. Returns whether some remain. */
bool host_locks_keep(const struct file_lock *locks, size_t n);
