/*
 * The state of a directory and all below it: names, types, modes, times, targets of links, contents.
 *
 * The copy of a worker holds one of /workspace, in its own memory, and rollback.h restores the directory
 * from it. Only entries of the directory's own file system belong to it: what is mounted below
 * is neither read nor touched. No symbolic link is followed.
 */
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "sandbox-init/raw.h"

/* Zero is empty. Its content moves when it grows: keep offsets, not pointers. */
struct arena {
        char *base;
        size_t used, mapped;
};

/* Appends n bytes that are 0, aligned to 8. Returns their offset, or -ENOMEM. */
long arena_append(struct arena *arena, size_t n);
void arena_free(struct arena *arena);

enum {
        SNAPSHOT_NAMES_MAX = 20000,
        SNAPSHOT_DEPTH_MAX = 64, /* directories between the root and a name */
        SNAPSHOT_TIME_MS = 4000,
};

/* Zero is empty. */
struct snapshot {
        const char *root; /* its path; borrowed */
        uint64_t device;
        struct arena names, inodes, texts, contents, opens; /* of the structs below */
        uint32_t n_names, n_inodes, n_opens;
        uint32_t *by_name, *by_number; /* SNAPSHOT_SLOTS indexes each, from 1 */
        uint32_t directory; /* the current one's path, in texts; 0: it is not below the root */
        int reserve; /* an open file without a name, whose inode is free once it is closed; 0: none */
};

#define SNAPSHOT_NONE UINT32_MAX

/* A name in a directory. */
struct snapshot_name {
        uint32_t directory, inode; /* indexes of inodes */
        uint32_t text;             /* in texts, NUL-terminated */
        bool is_there;             /* of the rollback: the name exists, and is this inode's */
};

/* A file, directory, link or other thing, which may have several names. The root is number 0. */
struct snapshot_inode {
        uint64_t number;
        uint32_t mode;
        uint32_t name;      /* the first one; NONE: the root, or an open file without a name */
        uint32_t depth;     /* of a directory */
        uint32_t target;    /* of a link: in texts */
        uint32_t n_extents; /* of a regular file; they follow one another in contents */
        int fd;             /* of an open file without a name */
        uint64_t size;
        size_t content; /* of the first extent, in contents */
        struct timespec
                times[2]; /* as for utimensat(): of the last access and of the last change */

        /* Of the rollback. */
        uint32_t place;  /* one of its names that exists, or NONE */
        uint32_t staged; /* the number under which it waits for its place, or NONE */
        bool is_new;     /* it had been deleted, and was made again */
        bool is_changed; /* its content has to be written */
};

/* Bytes of a file that are not a hole. They follow. */
struct snapshot_extent {
        uint64_t offset, length;
};

/* An open descriptor of a regular file below the root. */
struct snapshot_open {
        int fd;
        uint32_t inode;
};

static inline struct snapshot_name *snapshot_name(const struct snapshot *s, uint32_t i)
{
        return (struct snapshot_name *)(void *)s->names.base + i;
}

static inline struct snapshot_inode *snapshot_inode(const struct snapshot *s, uint32_t i)
{
        return (struct snapshot_inode *)(void *)s->inodes.base + i;
}

static inline const char *snapshot_text(const struct snapshot *s, uint32_t at)
{
        return s->texts.base + at;
}

static inline struct snapshot_open *snapshot_open_file(const struct snapshot *s, uint32_t i)
{
        return (struct snapshot_open *)(void *)s->opens.base + i;
}

/* lstat() of a name in a directory. Returns 0 or negative errno. */
static inline int snapshot_stat(int directory, const char *name, struct stat *ret)
{
        return (int)raw_call(SYS_newfstatat, directory, raw_pointer(name), raw_pointer(ret),
                             AT_SYMLINK_NOFOLLOW, 0, 0);
}

static inline void snapshot_close(int fd)
{
        raw_call(SYS_close, fd, 0, 0, 0, 0, 0);
}

/* The index, or NONE. */
uint32_t snapshot_find_name(const struct snapshot *s, uint32_t directory, const char *text);
uint32_t snapshot_find_inode(const struct snapshot *s, uint64_t number, uint32_t mode);
/* Opens the directory with this index, step by step from the root. Returns a descriptor or negative errno. */
int snapshot_open_directory(const struct snapshot *s, uint32_t inode);
/* Sets the mode of the name, or of the root if its index is NONE. */
int snapshot_set_mode(const struct snapshot *s, uint32_t name, uint32_t mode);
/* Calls visit() for each name in a directory but "." and "..", until it returns other than 0. */
int snapshot_each(int directory, int (*visit)(void *data, int directory, const char *name),
                  void *data);
/* Writes "/proc/self/fd/N". */
void snapshot_fd_path(int fd, char to[32]);

/*
 * Takes one of the directory. Returns 0 or
 *     -E2BIG      more than SNAPSHOT_NAMES_MAX names
 *     -EFBIG      more than bytes_max of contents
 *     -ELOOP      directories are nested too deeply
 *     -ETIMEDOUT  it took longer than SNAPSHOT_TIME_MS
 *     -ENOMEM, and what the kernel says
 * and then the snapshot is empty. Files and directories that their owner may not read are made readable
 * for the moment.
 */
int snapshot_take(struct snapshot *ret, const char *root, uint64_t bytes_max);
void snapshot_free(struct snapshot *snapshot);
