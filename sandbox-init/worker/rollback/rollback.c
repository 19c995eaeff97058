/* Runs the steps of a rollback. */
#include "sandbox-init/worker/rollback/rollback.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct rollback {
        struct snapshot *s;
        struct rollback_report *report;
        int staging; /* a directory of our own below the root, or -1: there is no room for one yet */
        uint64_t staging_number;
        char staging_name[32];
        uint32_t directory; /* of the snapshot: the one that is visited */
        struct arena moved; /* directories in staging: the indexes of their inodes, or NONE */
        uint32_t n_moved;
        uint32_t opened; /* the directory that open_fd is, or NONE */
        int open_fd;
};

/* Returns a descriptor of the snapshot's directory with this index, or negative errno. It is closed by the next call with
 * another index. */
static int rollback_directory(struct rollback *r, uint32_t directory)
{
        if (r->opened == directory)
                return r->open_fd;
        if (r->opened != SNAPSHOT_NONE)
                snapshot_close(r->open_fd);
        int fd = snapshot_open_directory(r->s, directory);
        r->opened = fd < 0 ? SNAPSHOT_NONE : directory;
        r->open_fd = fd;
        return fd;
}

/* Writes the path before `end`. Returns its begin, or NULL: it is longer than `room`. */
static char *put_before(char *end, size_t room, const char *text)
{
        size_t n = strlen(text);

        if (n > room)
                return NULL;
        char *begin = end - n;
        for (size_t i = 0; i < n; i++)
                begin[i] = text[i];
        return begin;
}

static void rollback_note_path(const struct rollback *r, struct rollback_names *to,
                               uint32_t directory, const char *text)
{
        char path[ROLLBACK_NAME_SIZE];
        char *at = path + sizeof(path) - 1;

        to->total++;
        if (to->n == ROLLBACK_NAMED_MAX)
                return;
        *at = '\0';
        at = put_before(at, (size_t)(at - path), text);
        while (at && directory != 0) {
                const struct snapshot_name *name = snapshot_name(
                        r->s, snapshot_inode(r->s, directory)->name);
                at = put_before(at, (size_t)(at - path), "/");
                if (at)
                        at = put_before(at, (size_t)(at - path), snapshot_text(r->s, name->text));
                directory = name->directory;
        }
        if (at)
                memcpy(to->names[to->n++], at, (size_t)(path + sizeof(path) - at));
}

/* One of the inode's names. */
static void rollback_note_inode(const struct rollback *r, struct rollback_names *to, uint32_t i)
{
        uint32_t name = snapshot_inode(r->s, i)->name;

        if (name == SNAPSHOT_NONE)
                to->total++;
        else
                rollback_note_path(r, to, snapshot_name(r->s, name)->directory,
                                   snapshot_text(r->s, snapshot_name(r->s, name)->text));
}

/* ---- names ---- */

/*
 * A name is in its place if it exists, below directories that are in their places,
 * and has the inode that it had. All others are removed: those whose inodes are wanted are moved into a
 * directory of our own (staging), directories with all that they contain, and then emptied there one by
 * one, so that no depth is a problem. Then each missing name is made: of a name that the inode has
 * elsewhere, of what waits in staging, or anew.
 */
enum {
        STAGED_NAME = 16,
        STAGING_TRIES = 1000,
        EMPTY_TRIES = 3,
        OWNER_ALL = 0700,
        OWN_MODE = 0600,
        PIECE = 64 * 1024,
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

static void rollback_names(struct rollback *r)
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

/* ---- contents, once the names have their places ---- */

static bool is_file(const struct snapshot_inode *inode)
{
        return S_ISREG(inode->mode) && (inode->place != SNAPSHOT_NONE || inode->fd >= 0);
}

/* Of a file whose mode forbids it too: rollback_attributes() sets it. */
static int open_file(struct rollback *r, const struct snapshot_inode *inode, int flags)
{
        char path[32];
        int directory = AT_FDCWD;
        const char *text = path;

        flags |= O_CLOEXEC | O_NONBLOCK;
        if (inode->place == SNAPSHOT_NONE) {
                snapshot_fd_path(inode->fd, path);
        } else {
                const struct snapshot_name *name = snapshot_name(r->s, inode->place);
                directory = rollback_directory(r, name->directory);
                text = snapshot_text(r->s, name->text);
                flags |= O_NOFOLLOW;
        }
        if (directory < 0 && directory != AT_FDCWD)
                return directory;
        long fd = raw_call(SYS_openat, directory, raw_pointer(text), flags, 0, 0, 0);
        if (fd == -EACCES) {
                raw_call(SYS_fchmodat, directory, raw_pointer(text), OWN_MODE, 0, 0, 0);
                fd = raw_call(SYS_openat, directory, raw_pointer(text), flags, 0, 0, 0);
        }
        return (int)fd;
}

/* ---- whether it has changed ---- */

static const struct snapshot_extent *extent_at(const struct rollback *r, size_t at)
{
        return (const void *)(r->s->contents.base + at);
}

static size_t next_extent(const struct snapshot_extent *extent, size_t at)
{
        return (at + sizeof(*extent) + extent->length + 7) & ~(size_t)7;
}

static bool is_extent(int fd, const struct snapshot_extent *extent)
{
        static char piece[PIECE];
        const char *wanted = (const char *)(extent + 1);
        uint64_t n = 0;

        while (n < extent->length) {
                uint64_t most = extent->length - n < PIECE ? extent->length - n : PIECE;
                long got = raw_call(SYS_pread64, fd, raw_pointer(piece), (long)most,
                                    (long)(extent->offset + n), 0, 0);
                if (got <= 0 || memcmp(piece, wanted + n, (size_t)got) != 0)
                        return false;
                n += (uint64_t)got;
        }
        return true;
}

/* Whether the file has no data between these offsets. */
static bool is_hole(int fd, uint64_t from, uint64_t to)
{
        if (from >= to)
                return true;
        long data = raw_call(SYS_lseek, fd, (long)from, SEEK_DATA, 0, 0, 0);
        return data == -ENXIO || (data >= 0 && (uint64_t)data >= to);
}

static bool has_content(const struct rollback *r, const struct snapshot_inode *inode, int fd)
{
        struct stat about = {0};
        uint64_t end = 0;
        size_t at = inode->content;

        if (raw_call(SYS_fstat, fd, raw_pointer(&about), 0, 0, 0, 0) < 0 ||
            (uint64_t)about.st_size != inode->size)
                return false;
        for (uint32_t i = 0; i < inode->n_extents; i++) {
                const struct snapshot_extent *extent = extent_at(r, at);
                if (!is_hole(fd, end, extent->offset) || !is_extent(fd, extent))
                        return false;
                end = extent->offset + extent->length;
                at = next_extent(extent, at);
        }
        return is_hole(fd, end, inode->size);
}

/* A changed file has no pages until it is written. */
static void compare(struct rollback *r, uint32_t i)
{
        struct snapshot_inode *inode = snapshot_inode(r->s, i);
        int fd = open_file(r, inode, O_RDONLY | O_NOATIME);

        inode->is_changed = fd < 0 || !has_content(r, inode, fd);
        if (fd >= 0)
                snapshot_close(fd);
        if (!inode->is_changed)
                return;
        fd = open_file(r, inode, O_WRONLY | O_TRUNC);
        if (fd >= 0)
                snapshot_close(fd);
        if (inode->is_new)
                return; /* was counted by its name */
        r->report->changed++;
        rollback_note_inode(r, &r->report->named, i);
}

/* ---- writing ---- */

static int write_extent(int fd, const struct snapshot_extent *extent)
{
        const char *bytes = (const char *)(extent + 1);
        uint64_t n = 0;

        while (n < extent->length) {
                long r = raw_call(SYS_pwrite64, fd, raw_pointer(bytes + n),
                                  (long)(extent->length - n), (long)(extent->offset + n), 0, 0);
                if (r <= 0)
                        return r < 0 ? (int)r : -EIO;
                n += (uint64_t)r;
        }
        return 0;
}

static int write_content(struct rollback *r, const struct snapshot_inode *inode)
{
        size_t at = inode->content;
        int fd = open_file(r, inode, O_WRONLY);

        if (fd < 0)
                return fd;
        int n = (int)raw_call(SYS_ftruncate, fd, (long)inode->size, 0, 0, 0, 0);
        for (uint32_t i = 0; i < inode->n_extents && n >= 0; i++) {
                const struct snapshot_extent *extent = extent_at(r, at);
                n = write_extent(fd, extent);
                at = next_extent(extent, at);
        }
        snapshot_close(fd);
        return n;
}

/* ---- descriptors ---- */

/* A descriptor of a file that was deleted gets the file that took its place. */
static void reopen(struct rollback *r, const struct snapshot_open *open)
{
        struct snapshot_inode *inode = snapshot_inode(r->s, open->inode);

        if (!inode->is_new || inode->place == SNAPSHOT_NONE)
                return;
        long flags = raw_call(SYS_fcntl, open->fd, F_GETFL, 0, 0, 0, 0);
        long offset = raw_call(SYS_lseek, open->fd, 0, SEEK_CUR, 0, 0, 0);
        long of_fd = raw_call(SYS_fcntl, open->fd, F_GETFD, 0, 0, 0, 0);
        if (flags < 0 || of_fd < 0)
                return;
        int fd = open_file(r, inode, (int)(flags & (O_ACCMODE | O_APPEND | O_SYNC)));
        if (fd < 0)
                return;
        raw_call(SYS_lseek, fd, offset, SEEK_SET, 0, 0, 0);
        raw_call(SYS_fcntl, fd, F_SETFL, flags, 0, 0, 0);
        raw_call(SYS_dup3, fd, open->fd, of_fd & FD_CLOEXEC ? O_CLOEXEC : 0, 0, 0, 0);
        snapshot_close(fd);
}

static void rollback_contents(struct rollback *r)
{
        for (uint32_t i = 0; i < r->s->n_opens; i++)
                reopen(r, snapshot_open_file(r->s, i));
        for (uint32_t i = 0; i < r->s->n_inodes; i++) {
                if (is_file(snapshot_inode(r->s, i)))
                        compare(r, i);
        }
        for (uint32_t i = 0; i < r->s->n_inodes; i++) {
                const struct snapshot_inode *inode = snapshot_inode(r->s, i);
                if (inode->is_changed && write_content(r, inode) < 0)
                        rollback_note_inode(r, &r->report->failed, i);
        }
}

/* ---- modes and times ---- */

static bool same_time(const struct timespec *a, const struct timespec *b)
{
        return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static long set_attributes(int directory, const char *text, const struct snapshot_inode *inode)
{
        struct stat about;
        long r = snapshot_stat(directory, text, &about);

        if (r >= 0 && about.st_mode != inode->mode && !S_ISLNK(inode->mode))
                r = raw_call(SYS_fchmodat, directory, raw_pointer(text), inode->mode & 07777, 0, 0,
                             0);
        if (r >= 0 && (!same_time(&about.st_mtim, &inode->times[1]) ||
                       !same_time(&about.st_atim, &inode->times[0])))
                r = raw_call(SYS_utimensat, directory, raw_pointer(text), raw_pointer(inode->times),
                             AT_SYMLINK_NOFOLLOW, 0, 0);
        return r;
}

/* The entries of a directory come after it, and are restored first: its mode may forbid to enter it. */
static void rollback_attributes(struct rollback *r)
{
        for (uint32_t i = r->s->n_inodes; i-- > 1;) {
                const struct snapshot_inode *inode = snapshot_inode(r->s, i);
                if (inode->place == SNAPSHOT_NONE)
                        continue;
                const struct snapshot_name *name = snapshot_name(r->s, inode->place);
                int directory = rollback_directory(r, name->directory);
                if (directory < 0 ||
                    set_attributes(directory, snapshot_text(r->s, name->text), inode) < 0)
                        rollback_note_inode(r, &r->report->failed, i);
        }
        set_attributes(AT_FDCWD, r->s->root, snapshot_inode(r->s, 0));
}

/* Only if the process is in a directory that was deleted: it was made again. */
static void enter_directory(const struct snapshot *s)
{
        struct stat about;

        if (s->directory != 0 && snapshot_stat(AT_FDCWD, ".", &about) >= 0 && about.st_nlink == 0)
                raw_call(SYS_chdir, raw_pointer(snapshot_text(s, s->directory)), 0, 0, 0, 0, 0);
}

void rollback_run(struct snapshot *s, struct rollback_report *ret)
{
        struct rollback r = {.s = s, .report = ret, .staging = -1, .opened = SNAPSHOT_NONE};

        *ret = (struct rollback_report){0};
        rollback_names(&r);
        rollback_contents(&r);
        rollback_attributes(&r);
        enter_directory(s);
        if (r.opened != SNAPSHOT_NONE)
                snapshot_close(r.open_fd);
        arena_free(&r.moved);
}
