/*
 * Each name is what it was.
 *
 * Theory of operation. A name is in its place if it exists, below directories that are in their places,
 * and has the inode that it had. All others are removed: those whose inodes are wanted are moved into a
 * directory of our own (staging), directories with all that they contain, and then emptied there one by
 * one, so that no depth is a problem. Then each missing name is made: of a name that the inode has
 * elsewhere, of what waits in staging, or anew.
 */
#include "sandbox-init/worker/rollback/rollback-names.h"

#include <errno.h>
#include <stdio.h>

enum {
        STAGED_NAME = 16,
        STAGING_TRIES = 1000,
        EMPTY_TRIES = 3,
        OWNER_ALL = 0700,
        OWN_MODE = 0600,
};

static long call_unlink(int directory, const char *name, int flags)
{
        return raw_call(SYS_unlinkat, directory, raw_pointer(name), flags, 0, 0, 0);
}

static long call_rename(int from, const char *name, int to, const char *new_name)
{
        return raw_call(SYS_renameat2, from, raw_pointer(name), to, raw_pointer(new_name), 0, 0);
}

/* ---- out of the way ---- */

static void staged_name(char kind, uint32_t number, char to[STAGED_NAME])
{
        snprintf(to, STAGED_NAME, "%c%u", kind, number);
}

/* "f": files, by their inodes' indexes; "d": directories, by their place in r->moved. */
static void staged_name_of(const struct rollback *r, uint32_t inode, char to[STAGED_NAME])
{
        bool is_directory = S_ISDIR(snapshot_inode(r->s, inode)->mode);

        staged_name(is_directory ? 'd' : 'f', snapshot_inode(r->s, inode)->staged, to);
}

/* Returns 1, 0: not now, because there is no staging, or negative errno. */
static long move_file(struct rollback *r, int directory, const char *text, const struct stat *about)
{
        uint32_t i = snapshot_find_inode(r->s, about->st_ino, about->st_mode);
        char to[STAGED_NAME];

        if (i == SNAPSHOT_NONE || snapshot_inode(r->s, i)->staged != SNAPSHOT_NONE ||
            snapshot_inode(r->s, i)->place != SNAPSHOT_NONE) {
                long n = call_unlink(directory, text, 0);
                return n < 0 ? n : 1;
        }
        if (r->staging < 0)
                return 0;
        staged_name('f', i, to);
        long n = call_rename(directory, text, r->staging, to);
        if (n < 0)
                return n;
        snapshot_inode(r->s, i)->staged = i;
        return 1;
}

static long move_directory(struct rollback *r, int directory, const char *text,
                           const struct stat *about)
{
        char to[STAGED_NAME];

        if (r->staging < 0)
                return 0;
        /* To change its "..", the kernel requires that it is writable. */
        if ((about->st_mode & OWNER_ALL) != OWNER_ALL)
                raw_call(SYS_fchmodat, directory, raw_pointer(text),
                         (about->st_mode & 07777) | OWNER_ALL, 0, 0, 0);
        if (arena_append(&r->moved, sizeof(uint64_t)) < 0)
                return -ENOMEM;
        uint32_t number = r->n_moved++;
        uint32_t i = snapshot_find_inode(r->s, about->st_ino, about->st_mode);
        if (i != SNAPSHOT_NONE && snapshot_inode(r->s, i)->staged != SNAPSHOT_NONE)
                i = SNAPSHOT_NONE;
        ((uint64_t *)(void *)r->moved.base)[number] = SNAPSHOT_NONE;
        staged_name('d', number, to);
        long n = call_rename(directory, text, r->staging, to);
        if (n < 0)
                return n;
        ((uint64_t *)(void *)r->moved.base)[number] = i;
        if (i != SNAPSHOT_NONE)
                snapshot_inode(r->s, i)->staged = number;
        return 1;
}

static long move_away(struct rollback *r, int directory, const char *text, const struct stat *about)
{
        return S_ISDIR(about->st_mode) ? move_directory(r, directory, text, about)
                                       : move_file(r, directory, text, about);
}

/* Notes a name that is in its place. */
static bool is_in_place(struct rollback *r, uint32_t i, const struct stat *about)
{
        struct snapshot_name *name = i == SNAPSHOT_NONE ? NULL : snapshot_name(r->s, i);
        struct snapshot_inode *inode = name ? snapshot_inode(r->s, name->inode) : NULL;

        if (!inode || inode->number != about->st_ino ||
            (inode->mode & S_IFMT) != (about->st_mode & S_IFMT))
                return false;
        name->is_there = true;
        if (inode->place == SNAPSHOT_NONE)
                inode->place = i;
        return true;
}

static int visit(void *data, int directory, const char *text)
{
        struct rollback *r = data;
        uint32_t i = snapshot_find_name(r->s, r->directory, text);
        struct stat about;

        if (snapshot_stat(directory, text, &about) < 0 || about.st_dev != r->s->device ||
            (r->staging >= 0 && about.st_ino == r->staging_number))
                return 0;
        if (is_in_place(r, i, &about))
                return 0;
        long n = move_away(r, directory, text, &about);
        if (n < 0)
                rollback_note_path(r, &r->report->failed, r->directory, text);
        if (n > 0 && i == SNAPSHOT_NONE) {
                r->report->removed++;
                rollback_note_path(r, &r->report->named, r->directory, text);
        }
        return 0;
}

/* Parents come before what they contain: whether a directory is in its place is known by then. */
static void clear_places(struct rollback *r)
{
        for (uint32_t i = 0; i < r->s->n_inodes; i++) {
                struct snapshot_inode *inode = snapshot_inode(r->s, i);
                if (!S_ISDIR(inode->mode) || (i != 0 && inode->place == SNAPSHOT_NONE))
                        continue;
                /* It may not be readable now. rollback_attributes() sets its mode. */
                snapshot_set_mode(r->s, inode->name, inode->mode | OWNER_ALL);
                int fd = snapshot_open_directory(r->s, i);
                r->directory = i;
                if (fd < 0 || snapshot_each(fd, visit, r) < 0)
                        rollback_note_inode(r, &r->report->failed, i);
                if (fd >= 0)
                        snapshot_close(fd);
        }
}

static int visit_moved(void *data, int directory, const char *text)
{
        struct rollback *r = data;
        struct stat about;

        if (snapshot_stat(directory, text, &about) >= 0 && about.st_dev == r->s->device)
                move_away(r, directory, text, &about);
        return 0;
}

static int empty_moved(struct rollback *r, const char *text)
{
        int fd = (int)raw_call(SYS_openat, r->staging, raw_pointer(text),
                               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0, 0, 0);

        if (fd < 0)
                return fd;
        int n = snapshot_each(fd, visit_moved, r);
        snapshot_close(fd);
        return n;
}

/* Their directories are moved to the end of the list. One that is wanted stays, with what is mounted in
 * it. */
static void empty_all_moved(struct rollback *r)
{
        char text[STAGED_NAME];

        for (uint32_t number = 0; number < r->n_moved; number++) {
                bool is_wanted = ((uint64_t *)(void *)r->moved.base)[number] != SNAPSHOT_NONE;
                staged_name('d', number, text);
                long n = -ENOTEMPTY;
                for (int i = 0; i < EMPTY_TRIES && n == -ENOTEMPTY; i++) {
                        empty_moved(r, text);
                        n = is_wanted ? 0 : call_unlink(r->staging, text, AT_REMOVEDIR);
                }
        }
}

/* ---- into their places ---- */

static long make_link(struct rollback *r, const struct snapshot_inode *inode, int directory,
                      const char *text)
{
        const struct snapshot_name *place = snapshot_name(r->s, inode->place);
        int from = snapshot_open_directory(r->s, place->directory);

        if (from < 0)
                return from;
        long n = raw_call(SYS_linkat, from, raw_pointer(snapshot_text(r->s, place->text)),
                          directory, raw_pointer(text), 0, 0);
        snapshot_close(from);
        return n;
}

static long make_file(int directory, const char *text)
{
        long fd = raw_call(SYS_openat, directory, raw_pointer(text),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, OWN_MODE, 0, 0);

        if (fd >= 0)
                snapshot_close((int)fd);
        return fd;
}

/* The umask may be any. */
static long make_directory(int directory, const char *text)
{
        long r = raw_call(SYS_mkdirat, directory, raw_pointer(text), OWNER_ALL, 0, 0, 0);

        return r < 0 ? r : raw_call(SYS_fchmodat, directory, raw_pointer(text), OWNER_ALL, 0, 0, 0);
}

/* A socket without its process would be of no use. */
static long make_new(struct rollback *r, struct snapshot_inode *inode, int directory,
                     const char *text)
{
        inode->is_new = true;
        switch (inode->mode & S_IFMT) {
        case S_IFDIR:
                return make_directory(directory, text);
        case S_IFREG:
                return make_file(directory, text);
        case S_IFLNK:
                return raw_call(SYS_symlinkat, raw_pointer(snapshot_text(r->s, inode->target)),
                                directory, raw_pointer(text), 0, 0, 0);
        case S_IFIFO:
                return raw_call(SYS_mknodat, directory, raw_pointer(text), S_IFIFO | OWN_MODE, 0, 0,
                                0);
        default:
                return -EOPNOTSUPP;
        }
}

static void place(struct rollback *r, uint32_t i)
{
        struct snapshot_name *name = snapshot_name(r->s, i);
        struct snapshot_inode *inode = snapshot_inode(r->s, name->inode);
        const char *text = snapshot_text(r->s, name->text);
        char from[STAGED_NAME];
        long n;

        int directory = rollback_directory(r, name->directory);
        if (directory < 0) {
                n = directory;
        } else if (inode->place != SNAPSHOT_NONE) {
                n = make_link(r, inode, directory, text);
        } else if (inode->staged != SNAPSHOT_NONE) {
                staged_name_of(r, name->inode, from);
                n = call_rename(r->staging, from, directory, text);
        } else {
                n = make_new(r, inode, directory, text);
        }
        if (n < 0) {
                rollback_note_path(r, &r->report->failed, name->directory, text);
                return;
        }
        name->is_there = true;
        if (inode->place == SNAPSHOT_NONE)
                inode->place = i;
        r->report->returned++;
        rollback_note_path(r, &r->report->named, name->directory, text);
}

/* ---- staging ---- */

static bool make_staging(struct rollback *r)
{
        struct stat about;
        int root = snapshot_open_directory(r->s, 0);

        for (int i = 0; root >= 0 && i < STAGING_TRIES; i++) {
                snprintf(r->staging_name, sizeof(r->staging_name), ".cloister-rollback-%d", i);
                if (snapshot_find_name(r->s, 0, r->staging_name) != SNAPSHOT_NONE)
                        continue;
                long n = make_directory(root, r->staging_name);
                if (n == -EEXIST)
                        continue;
                if (n >= 0)
                        r->staging = (int)raw_call(SYS_openat, root, raw_pointer(r->staging_name),
                                                   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                                                   0, 0, 0);
                break;
        }
        if (root >= 0)
                snapshot_close(root);
        if (r->staging < 0 || raw_call(SYS_fstat, r->staging, raw_pointer(&about), 0, 0, 0, 0) < 0)
                return false;
        r->staging_number = about.st_ino;
        return true;
}

static int remove_staged(void *data, int directory, const char *text)
{
        (void)data;
        call_unlink(directory, text, 0);
        return 0;
}

/* The directory still has second names of files that have a place. */
static void remove_staging(struct rollback *r)
{
        int root = snapshot_open_directory(r->s, 0);

        raw_call(SYS_lseek, r->staging, 0, SEEK_SET, 0, 0, 0);
        snapshot_each(r->staging, remove_staged, r);
        snapshot_close(r->staging);
        if (root < 0)
                return;
        if (call_unlink(root, r->staging_name, AT_REMOVEDIR) < 0)
                rollback_note_path(r, &r->report->failed, 0, r->staging_name);
        snapshot_close(root);
}

/* If no inode is free for staging, files that are not wanted are deleted before. */
static bool begin(struct rollback *r)
{
        struct snapshot_inode *root = snapshot_inode(r->s, 0);

        if (r->s->reserve > 0)
                snapshot_close(r->s->reserve);
        r->s->reserve = 0;
        snapshot_set_mode(r->s, SNAPSHOT_NONE, root->mode | OWNER_ALL);
        if (make_staging(r))
                return true;
        clear_places(r);
        return make_staging(r);
}

void rollback_names(struct rollback *r)
{
        if (!begin(r)) {
                rollback_note_path(r, &r->report->failed, 0, ".");
                return;
        }
        clear_places(r);
        empty_all_moved(r);
        for (uint32_t i = 0; i < r->s->n_names; i++) {
                if (!snapshot_name(r->s, i)->is_there)
                        place(r, i);
        }
        remove_staging(r);
}
