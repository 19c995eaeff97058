/*
 * The planned content of an image, as data. It is collected from the host first, so that the size
 * is known before the first byte is written, and then copied (copy.h).
 *
 * Entries are at canonical paths. A path that leads through links on the host does so in the image:
 * the links become entries of their own (/lib -> usr/lib, python3 -> python3.11, a venv's python),
 * so that each absolute path means the same in the image and on the host. A directory precedes its
 * entries.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/error.h"

enum { PRIVATE_NAMED_MAX = 5, PRIVATE_NAME_SIZE = 128 };

/* Files and directories that are not copied because other users of the machine, who can read the image, may not
 * read them in the source. */
struct private_files {
        uint64_t n;
        char named[PRIVATE_NAMED_MAX][PRIVATE_NAME_SIZE]; /* the first of these, printable */
};

enum plan_kind { PLAN_DIRECTORY, PLAN_FILE, PLAN_LINK, PLAN_TEXT };

struct plan_entry {
        enum plan_kind kind;
        bool executable;
        bool required; /* an unreadable file is an error; otherwise it is left out */
        bool linked;   /* a program or library whose libraries are needed too */
        char *path;    /* absolute; of a file, also its path on the host */
        char *text;    /* target of a link, content of a text */
        uint64_t size;
};

struct plan {
        struct plan_entry *entries;
        size_t n, allocated;
        uint64_t bytes; /* of files and texts, each rounded up to whole blocks of 4 KiB */
        uint64_t files; /* entries that are not directories */
        uint64_t stale; /* Python sources without a compiled file */
        uint64_t left_out;
        mode_t readers; /* store_readers(): a file without these permissions is left out */
        struct private_files private;
        void *index; /* of tsearch(), by path */
};

/* Which files below a directory are added: see plan_tree(). */
struct plan_tree_rules {
        /* Paths relative to the tree's root, "lib2to3/tests"; a last * stands for any rest.
         * NULL-terminated. */
        const char *const *without;
        const char *const
                *roots; /* links must point below these (NULL-terminated); others are left out */
        const char *cache_tag; /* take compiled Python files of this tag and magic, where they are
                                  valid; */
        uint32_t magic;        /* NULL: take no __pycache__ at all */
};

struct stat;

/* Whether a file or directory lacks one of these permissions to read, or a directory that to enter. */
bool private_files_has(const struct stat *st, mode_t readers);
void private_files_add(struct private_files *to, const char *path);

/* Whether no image has this entry of its root: a sandbox mounts over it, or it is of the machine on which the image was made. */
bool plan_leaves_out(const char *top);

struct plan *plan_new(void);
struct plan *plan_free(struct plan *plan);
DEFINE_CLEANUP(struct plan *, plan_free)
#define _cleanup_plan_ _cleanup_(cleanup_plan_free)

/* Adds an entry that Cloister writes. An existing path is not changed. */
int plan_directory(struct plan *plan, const char *path, struct error *err);
int plan_link(struct plan *plan, const char *path, const char *target, struct error *err);
int plan_text(struct plan *plan, const char *path, const char *text, bool executable,
              struct error *err);

enum plan_path_flags { PLAN_REQUIRED = 1, PLAN_LINKED = 2 };

/*
 * A file or directory (without its content) of the host, with all links that lead to it. Returns 1
 * when it is a file, 0 when it is a directory, -ENOENT (no error set) when it is missing and not
 * required. *canonical (may be NULL) is where it lies, owned by the caller. One that the plan's
 * readers may not read, or not reach, is -EPERM if it is required; otherwise it is counted in `private`: -ENOENT.
 */
int plan_path(struct plan *plan, const char *path, unsigned flags, char **canonical,
              struct error *err);

/* A directory of the host with its content: regular files, directories, links that end below
 * rules->roots. Unreadable entries are counted in left_out. Libraries (*.so, *.so.*) are marked as
 * linked. */
int plan_tree(struct plan *plan, const char *path, const struct plan_tree_rules *rules,
              struct error *err);
