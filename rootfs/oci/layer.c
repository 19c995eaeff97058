/*
 * Unpacks one layer. libarchive reads the headers, for which it keeps at most some MiB, and passes the data on in blocks.
 *
 * What is left out hides the entry of the same name in lower layers, as the entry itself would.
 */
#include "rootfs/oci/layer.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/printable.h"

enum { CHUNK = 128 * 1024, SHOWN = 200 };

/* The layer while it is read. */
struct reader {
        const struct layer *layer;
        struct stream *stream;
        struct archive *archive;
        struct error failed; /* of the stream */
        char chunk[CHUNK];
};

static la_ssize_t on_read(struct archive *archive, void *data, const void **ret)
{
        struct reader *r = data;

        ssize_t n = stream_next(r->stream, ret, &r->failed);
        if (n < 0)
                archive_set_error(archive, (int)-n, "%s", r->failed.text);
        return n < 0 ? ARCHIVE_FATAL : n;
}

static int fail_to_read(struct reader *r, struct error *err)
{
        char why[SHOWN];
        const char *text = archive_error_string(r->archive);

        if (error_is_set(&r->failed)) {
                *err = r->failed;
                return -err->code;
        }
        printable_escape(why, sizeof(why), text ? text : "no reason is known");
        return error_set(err, EBADMSG, "it is damaged, cut off, or not a tar archive (%s)", why);
}

static int fail_at(const char *name, const char *why, int code, struct error *err)
{
        char shown[SHOWN];

        printable_escape(shown, sizeof(shown), name);
        return error_set(err, code, "\"%s\": %s", shown, why);
}

/* The result of a function of tree.h. */
static int fail_in_tree(const char *name, int r, struct error *err)
{
        switch (r) {
        case -ELOOP:
                return fail_at(name, "a directory above it is a symbolic link", ELOOP, err);
        case -ENOTDIR:
                return fail_at(name, "a directory above it is a file", ENOTDIR, err);
        default:
                return fail_at(name, strerrordesc_np(-r), -r, err);
        }
}

static int leave_out(struct reader *r, const struct layer_name *name)
{
        (*r->layer->left_out)++;
        return *name->base ? tree_make_whiteout(r->layer->tree, name) : 0;
}

/* ---- a file ---- */

static mode_t mode_of(const struct reader *r, mode_t mode)
{
        if ((mode & r->layer->readers) != r->layer->readers)
                return 0600;
        return mode & 0111 ? 0755 : 0644;
}

static int write_at(int fd, const char *data, size_t n, uint64_t offset)
{
        while (n > 0) {
                ssize_t written = pwrite(fd, data, n, (off_t)offset);
                if (written < 0 && errno == EINTR)
                        continue;
                if (written < 0)
                        return -errno;
                data += written;
                offset += (uint64_t)written;
                n -= (size_t)written;
        }
        return 0;
}

/* Holes of the file stay holes. */
static int write_data(struct reader *r, int fd, uint64_t size, const char *path, struct error *err)
{
        const void *data;
        la_int64_t offset = 0;
        uint64_t end = 0;
        size_t n = 0;
        int got;

        while ((got = archive_read_data_block(r->archive, &data, &n, &offset)) == ARCHIVE_OK) {
                if (offset < 0 || (uint64_t)offset > size || n > size - (uint64_t)offset)
                        return fail_at(path, "it has more data than its header says", EBADMSG, err);
                int written = write_at(fd, data, n, (uint64_t)offset);
                if (written < 0)
                        return fail_in_tree(path, written, err);
                end = (uint64_t)offset + n;
        }
        if (got != ARCHIVE_EOF)
                return fail_to_read(r, err);
        if (end < size && ftruncate(fd, (off_t)size) < 0)
                return fail_in_tree(path, -errno, err);
        return 0;
}

static int set_time(int fd, time_t seconds, long nanoseconds)
{
        struct timespec time = {.tv_sec = seconds, .tv_nsec = nanoseconds};

        return futimens(fd, (struct timespec[]){time, time});
}

static int unpack_file(struct reader *r, struct archive_entry *entry, const struct layer_name *name,
                       const char *path, struct error *err)
{
        la_int64_t size = archive_entry_size(entry);

        if (size < 0)
                return fail_at(path, "its size is negative", EBADMSG, err);
        if (budget_write(r->layer->budget, (uint64_t)size, err) < 0)
                return -err->code;
        _cleanup_close_ int fd = tree_make_file(r->layer->tree, name,
                                                mode_of(r, archive_entry_mode(entry)));
        if (fd < 0)
                return fail_in_tree(path, fd, err);
        int written = write_data(r, fd, (uint64_t)size, path, err);
        if (written < 0)
                return written;
        /* A time that the file system cannot store is not an error. */
        if (archive_entry_mtime_is_set(entry))
                (void)set_time(fd, archive_entry_mtime(entry), archive_entry_mtime_nsec(entry));
        return 0;
}

/* ---- a hard link: a copy of the file ---- */

static int copy_data(struct reader *r, int from, int to)
{
        for (off_t at = 0;;) {
                ssize_t n = pread(from, r->chunk, CHUNK, at);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : 0;
                int written = write_at(to, r->chunk, (size_t)n, (uint64_t)at);
                if (written < 0)
                        return written;
                at += n;
        }
}

static int copy_file(struct reader *r, const struct tree *tree, const struct layer_name *target,
                     const struct stat *st, const struct layer_name *name, const char *path,
                     struct error *err)
{
        mode_t mode = st->st_mode & 0777;

        if (budget_write(r->layer->budget, (uint64_t)st->st_size, err) < 0)
                return -err->code;
        /* Before the name is removed, which may be that of the target. */
        _cleanup_close_ int from = tree_open(tree, target, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
        if (from < 0)
                return fail_in_tree(path, from, err);
        _cleanup_close_ int to = tree_make_file(r->layer->tree, name, mode);
        int copied = to < 0 ? to : copy_data(r, from, to);
        if (copied < 0)
                return fail_in_tree(path, copied, err);
        (void)set_time(to, st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
        return 0;
}

static int copy_link(struct reader *r, int link, const struct layer_name *name, const char *path,
                     struct error *err)
{
        char target[PATH_MAX];

        ssize_t n = readlinkat(link, "", target, sizeof(target) - 1);
        if (n < 0)
                return fail_in_tree(path, -errno, err);
        target[n] = '\0';
        int made = tree_make_link(r->layer->tree, name, target);
        return made < 0 ? fail_in_tree(path, made, err) : 0;
}

static int unpack_hard_link(struct reader *r, const char *link, const struct layer_name *name,
                            const char *path, struct error *err)
{
        const struct tree *tree = r->layer->tree;
        struct layer_name target;
        struct stat st;

        int kind = layer_name_parse(link, &target);
        if (kind < 0) {
                char why[SHOWN + 80], shown[SHOWN];
                printable_escape(shown, sizeof(shown), link);
                snprintf(why, sizeof(why), "it is a hard link to \"%s\": %s", shown,
                         layer_name_problem(kind));
                return fail_at(path, why, -kind, err);
        }
        if (kind != LAYER_NAME_ENTRY)
                return leave_out(r, name);
        int fd = tree_open(tree, &target, O_PATH | O_NOFOLLOW);
        if (fd == -ENOENT) {
                tree = r->layer->below;
                fd = tree_open(tree, &target, O_PATH | O_NOFOLLOW);
        }
        _cleanup_close_ int found = fd;
        if (found == -ENOENT)
                return leave_out(r, name);
        if (found < 0)
                return fail_in_tree(link, found, err);
        if (fstat(found, &st) < 0)
                return fail_in_tree(link, -errno, err);
        if (S_ISREG(st.st_mode))
                return copy_file(r, tree, &target, &st, name, path, err);
        return S_ISLNK(st.st_mode) ? copy_link(r, found, name, path, err) : leave_out(r, name);
}

/* ---- all ---- */

static int unpack_entry(struct reader *r, struct archive_entry *entry,
                        const struct layer_name *name, const char *path, struct error *err)
{
        const char *link = archive_entry_hardlink(entry), *target = archive_entry_symlink(entry);
        mode_t readers = r->layer->readers | r->layer->readers >> 2;
        int made;

        if (link)
                return unpack_hard_link(r, link, name, path, err);
        switch (archive_entry_filetype(entry)) {
        case AE_IFREG:
                return unpack_file(r, entry, name, path, err);
        case AE_IFDIR:
                made = tree_make_directory(r->layer->tree, name,
                                           (archive_entry_mode(entry) & readers) == readers
                                                   ? TREE_PUBLIC
                                                   : TREE_PRIVATE);
                break;
        case AE_IFLNK:
                made = target && *target && strlen(target) < PATH_MAX
                               ? tree_make_link(r->layer->tree, name, target)
                               : leave_out(r, name);
                break;
        default:
                made = leave_out(r, name);
        }
        return made < 0 ? fail_in_tree(path, made, err) : 0;
}

static int take_entry(struct reader *r, struct archive_entry *entry, struct error *err)
{
        const char *path = archive_entry_pathname(entry);
        struct layer_name name;
        int made = 0;

        if (budget_entry(r->layer->budget, err) < 0)
                return -err->code;
        if (!path)
                return error_set(err, EBADMSG, "it has an entry without a name");
        int kind = layer_name_parse(path, &name);
        if (kind < 0)
                return fail_at(path, layer_name_problem(kind), -kind, err);
        switch ((enum layer_name_kind)kind) {
        case LAYER_NAME_ROOT:
                return 0;
        case LAYER_NAME_LEFT_OUT:
                /* An image has these directories, empty. */
                *r->layer->left_out += strcmp(name.parent, ".") != 0 ||
                                       archive_entry_filetype(entry) != AE_IFDIR;
                return 0;
        case LAYER_NAME_WHITEOUT:
        case LAYER_NAME_OPAQUE:
                made = tree_make_whiteout(r->layer->tree, &name);
                return made < 0 ? fail_in_tree(path, made, err) : 0;
        case LAYER_NAME_ENTRY:
                break;
        }
        return unpack_entry(r, entry, &name, path, err);
}

static int read_entries(struct reader *r, struct error *err)
{
        struct archive_entry *entry;

        for (;;) {
                int got = archive_read_next_header(r->archive, &entry);
                if (got == ARCHIVE_EOF)
                        return 0;
                if (got < ARCHIVE_WARN)
                        return fail_to_read(r, err);
                got = take_entry(r, entry, err);
                if (got < 0)
                        return got;
        }
}

/* Data after the archive's end belongs to the blob: it must be readable, and its digest may be of interest. */
static int read_rest(struct reader *r, struct error *err)
{
        const void *data;
        ssize_t n;

        while ((n = stream_next(r->stream, &data, err)) > 0)
                ;
        return (int)n;
}

int layer_unpack(const struct layer *layer, struct stream *stream, struct error *err)
{
        _cleanup_free_ struct reader *r = calloc(1, sizeof(*r));

        if (!r)
                return error_errno(err, ENOMEM, "layer");
        r->layer = layer;
        r->stream = stream;
        r->archive = archive_read_new();
        if (!r->archive || archive_read_support_format_tar(r->archive) < ARCHIVE_WARN) {
                archive_read_free(r->archive);
                return error_errno(err, ENOMEM, "layer");
        }
        int got = archive_read_open(r->archive, r, NULL, on_read, NULL) < ARCHIVE_WARN
                          ? fail_to_read(r, err)
                          : read_entries(r, err);
        archive_read_free(r->archive);
        return got < 0 ? got : read_rest(r, err);
}
