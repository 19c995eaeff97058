/*
 * Mounts by descriptor: no path string is resolved twice, and no symlink of an image is followed.
 * All of it runs without allocating, so that it may be used between clone and exec.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* The code of an error that is about what stands in a tree, and not about this machine. */
enum { MOUNT_CODE_TREE = EUCLEAN };

/* Opens a directory or file below root as a place to mount on, following no link. Returns an O_PATH
 * descriptor. */
int mount_point_open(int root, const char *path, struct error *err);

/* Makes the missing directories of path, following no link. -EROFS, -EACCES…: they cannot be made
 * there. */
int mount_point_make(int root, const char *path, struct error *err);

/* Detached mounts; each returns a descriptor. */
int mount_clone(int dir, const char *path, uint64_t attributes, struct error *err);
/* With all that is mounted below it, each with these attributes and without events from where it
 * came. Attributes 0: as they are, events too. */
int mount_clone_tree(int dir, const char *path, uint64_t attributes, struct error *err);
int mount_tmpfs_new(uint64_t size, uint32_t inodes, uint32_t mode, uint64_t attributes,
                    struct error *err);
enum mount_proc {
        MOUNT_PROC_WHOLE,
        MOUNT_PROC_PIDS, /* processes only, and all of them */
        MOUNT_PROC_OWN, /* of these, those that the reader could trace: not those that are not dumpable */
};
/* -EPERM where the present /proc is covered in part; the error names the mounts that cover it. */
int mount_proc_new(enum mount_proc kind, struct error *err);

/* Whether /proc is that of the caller's pid namespace: its files of a number are those of another process otherwise. -ESRCH: it is
 * not, or none is mounted. */
int mount_check_proc(struct error *err);

/* The mounts below the present /proc, by lines of mountinfo (proc_pid_mountinfo(5)). A mount on a directory that the kernel
 * keeps empty for it covers nothing. */
struct mount_proc_covers {
        unsigned n;
        char first[64];    /* the path of the first one, cut at the end */
        bool is_read_only; /* /proc itself is */
};
/* line: begins a line of mountinfo, and ends with '\n' or NUL. */
void mount_note_proc(struct mount_proc_covers *covers, const char *line);

/* Attaches a detached mount at path below root. MOUNT_CODE_TREE if path does not exist, is a link, or a file
 * where a directory is to be mounted. */
int mount_attach(int mount, int root, const char *path, struct error *err);

/* Attaches a detached mount over "/", where others can be attached below it, and makes it the root:
 * the old root is unmounted, and "/" is the working directory. */
int mount_over_root(int mount, struct error *err);
int mount_become_root(int mount, struct error *err);
/* In a mount namespace of its own: the root becomes an empty, read-only tmpfs. Returns 0 or negative errno. */
int mount_empty_root(struct error *err);

/* A tmpfs, made and attached. */
int mount_tmpfs_at(int root, const char *path, uint64_t size, uint32_t inodes, uint32_t mode,
                   struct error *err);

/* mountinfo (proc_pid_mountinfo(5)) writes the space, tab, newline and backslash in paths as three octal digits. */
void mount_unescape(char *path);
