/* Where the blobs of an image are. */
#include "rootfs/oci/source.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/host-file.h"
#include "base/printable.h"

enum { CHUNK = 256 * 1024, NAME_LENGTH_MAX = 255, LINKS_MAX = 4 };

struct member {
        char *name;
        char *link; /* of a symbolic or hard link: its target's name; else NULL */
        uint64_t offset, size;
};

struct source {
        int fd;
        bool is_directory;
        struct member *members; /* of an archive */
        size_t n;
};

struct source *source_close(struct source *source)
{
        if (!source)
                return NULL;
        for (size_t i = 0; i < source->n; i++) {
                free(source->members[i].name);
                free(source->members[i].link);
        }
        free(source->members);
        if (source->fd >= 0)
                close(source->fd);
        free(source);
        return NULL;
}

static void escape(char ret[100], const char *name)
{
        printable_escape(ret, 100, name);
}

/* ---- the list of an archive ---- */

/* A path without "." and ".." components, relative to `base`. False if it leads outside. */
static bool resolve(const char *base, const char *path, char ret[PATH_MAX])
{
        char whole[PATH_MAX];
        size_t n = 0;

        if (snprintf(whole, sizeof(whole), "%s/%s", *path == '/' ? "" : base, path) >=
            (int)sizeof(whole))
                return false;
        *ret = '\0';
        for (const char *at = whole; *at;) {
                at += strspn(at, "/");
                size_t length = strcspn(at, "/");
                if (length == 2 && memcmp(at, "..", 2) == 0) {
                        char *slash = strrchr(ret, '/');
                        if (n == 0)
                                return false;
                        n = slash ? (size_t)(slash - ret) : 0;
                } else if (length > 0 && !(length == 1 && *at == '.')) {
                        if (n > 0)
                                ret[n++] = '/';
                        memcpy(ret + n, at, length);
                        n += length;
                }
                ret[n] = '\0';
                at += length;
        }
        return n > 0;
}

/* The target of a link as a name of the archive, or NULL. */
static char *link_target(struct archive_entry *entry, const char *name)
{
        const char *hard = archive_entry_hardlink(entry), *soft = archive_entry_symlink(entry);
        char base[PATH_MAX], ret[PATH_MAX];

        if (!hard && !soft)
                return NULL;
        snprintf(base, sizeof(base), "%s", name);
        char *slash = strrchr(base, '/');
        *(slash ? slash : base) = '\0';
        return resolve(hard ? "" : base, hard ? hard : soft, ret) ? strdup(ret) : NULL;
}

static int add_member(struct source *source, struct archive *archive, struct archive_entry *entry,
                      struct error *err)
{
        const char *path = archive_entry_pathname(entry);
        la_int64_t size = archive_entry_size(entry), at = archive_filter_bytes(archive, 0);
        char name[PATH_MAX];

        bool is_file = archive_entry_filetype(entry) == AE_IFREG &&
                       archive_entry_sparse_count(entry) == 0;
        if (!path || !resolve("", path, name) || strlen(name) > NAME_LENGTH_MAX)
                return 0;
        char *link = link_target(entry, name);
        if (!link && (!is_file || size < 0 || at < 0))
                return 0;
        struct member *more = reallocarray(source->members, source->n + 1, sizeof(*more));
        if (more)
                source->members = more;
        char *copy = more ? strdup(name) : NULL;
        if (!copy) {
                free(link);
                return error_errno(err, ENOMEM, "list of the archive");
        }
        source->members[source->n++] = (struct member){
                .name = copy, .link = link, .offset = (uint64_t)at, .size = (uint64_t)size};
        return 0;
}

static int fail_to_list(struct archive *archive, struct error *err)
{
        char why[160];
        const char *text = archive_error_string(archive);

        printable_escape(why, sizeof(why), text ? text : "no reason is known");
        return error_set(
                err, EBADMSG,
                "it is neither an OCI layout nor an archive of one, or is damaged or cut off (%s)",
                why);
}

static int list_members(struct source *source, struct archive *archive, struct error *err)
{
        struct archive_entry *entry;

        for (unsigned n = 0;; n++) {
                int got = archive_read_next_header(archive, &entry);
                if (got == ARCHIVE_EOF)
                        return 0;
                if (got < ARCHIVE_WARN)
                        return fail_to_list(archive, err);
                if (n == BUDGET_MEMBERS_MAX)
                        return error_set(err, E2BIG, "the archive has more than %d files",
                                         BUDGET_MEMBERS_MAX);
                int r = add_member(source, archive, entry, err);
                if (r < 0)
                        return r;
        }
}

static int list_archive(struct source *source, struct error *err)
{
        struct archive *archive = archive_read_new();
        int r;

        if (!archive || archive_read_support_format_tar(archive) < ARCHIVE_WARN) {
                archive_read_free(archive);
                return error_errno(err, ENOMEM, "archive");
        }
        if (lseek(source->fd, 0, SEEK_SET) < 0)
                r = error_errno(err, errno, "archive");
        else if (archive_read_open_fd(archive, source->fd, CHUNK) < ARCHIVE_WARN)
                r = fail_to_list(archive, err);
        else
                r = list_members(source, archive, err);
        archive_read_free(archive);
        return r;
}

/* ---- an archive that is compressed ---- */

static bool is_compressed(int fd)
{
        static const unsigned char gzip[] = {0x1f, 0x8b}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
        unsigned char head[4] = {};

        return pread(fd, head, sizeof(head), 0) == sizeof(head) &&
               (memcmp(head, gzip, sizeof(gzip)) == 0 || memcmp(head, zstd, sizeof(zstd)) == 0);
}

static int write_stream(struct stream *stream, int fd, struct error *err)
{
        const void *data;
        ssize_t n;

        while ((n = stream_next(stream, &data, err)) > 0) {
                int r = fd_write_all(fd, data, (size_t)n);
                if (r < 0)
                        return error_errno(err, -r, "unpack the archive");
        }
        return (int)n;
}

static int unpack_archive(struct source *source, int spool, struct budget *budget,
                          struct error *err)
{
        static const char name[] = "archive.tar";
        _cleanup_stream_ struct stream *stream = NULL;
        struct budget own = {.bytes_max = budget->bytes_max};
        struct stat st;

        if (fstat(source->fd, &st) < 0)
                return error_errno(err, errno, "archive");
        struct blob blob = {.fd = source->fd, .size = (uint64_t)st.st_size};
        int r = stream_open(&blob, &own, &stream, err);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = host_file_open(HOST_FILE_IMAGE_PRIVATE, spool, name, NULL);
        if (fd < 0)
                return error_errno(err, -fd, "unpack the archive");
        r = write_stream(stream, fd, err);
        if (r < 0)
                return r;
        int readable = openat(spool, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (readable < 0 || unlinkat(spool, name, 0) < 0)
                r = error_errno(err, errno, "unpack the archive");
        if (r < 0) {
                if (readable >= 0)
                        close(readable);
                return r;
        }
        close(source->fd);
        source->fd = readable;
        return 0;
}

/* ---- all ---- */

int source_open(const char *path, int spool, struct budget *budget, struct source **ret,
                struct error *err)
{
        _cleanup_source_ struct source *source = calloc(1, sizeof(*source));
        struct stat st;

        if (!source)
                return error_errno(err, ENOMEM, "image");
        source->fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (source->fd < 0 || fstat(source->fd, &st) < 0)
                return error_set(err, errno, "%s", strerrordesc_np(errno));
        source->is_directory = S_ISDIR(st.st_mode);
        if (!source->is_directory && !S_ISREG(st.st_mode))
                return error_set(err, EINVAL, "it is neither a directory nor a file");
        int r = 0;
        if (!source->is_directory && is_compressed(source->fd))
                r = unpack_archive(source, spool, budget, err);
        if (r >= 0 && !source->is_directory)
                r = list_archive(source, err);
        if (r < 0)
                return r;
        *ret = take_ptr(source);
        return 0;
}

/* The last member of a name counts, as in an archive that is unpacked. */
static const struct member *find_member(const struct source *source, const char *name)
{
        for (int links = 0; links <= LINKS_MAX; links++) {
                const struct member *found = NULL;
                for (size_t i = source->n; i > 0 && !found; i--)
                        if (strcmp(source->members[i - 1].name, name) == 0)
                                found = &source->members[i - 1];
                if (!found || !found->link)
                        return found;
                name = found->link;
        }
        return NULL;
}

static int open_file(const struct source *source, const char *name, struct blob *ret)
{
        struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                               .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
                                          RESOLVE_NO_MAGICLINKS};
        struct stat st;
        _cleanup_close_ int fd = (int)syscall(SYS_openat2, source->fd, name, &how, sizeof(how));

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EINVAL;
        *ret = (struct blob){.fd = take_fd(fd), .size = (uint64_t)st.st_size};
        return 0;
}

bool source_has(const struct source *source, const char *name)
{
        struct blob blob;

        if (source_find(source, name, &blob, NULL) < 0)
                return false;
        source_release(source, &blob);
        return true;
}

int source_find(const struct source *source, const char *name, struct blob *ret, struct error *err)
{
        char shown[100];

        escape(shown, name);
        if (source->is_directory) {
                int r = open_file(source, name, ret);
                return r < 0 ? error_errno(err, -r, "\"%s\"", shown) : 0;
        }
        const struct member *found = find_member(source, name);
        if (!found)
                return error_set(err, ENOENT,
                                 "\"%s\" is missing: the archive is cut off or incomplete", shown);
        *ret = (struct blob){.fd = source->fd, .offset = found->offset, .size = found->size};
        return 0;
}

void source_release(const struct source *source, struct blob *blob)
{
        if (source->is_directory && blob->fd >= 0)
                close(blob->fd);
        blob->fd = -1;
}

/* Reads n bytes at a place of a blob; fewer only at the file's end. */
static ssize_t read_at(const struct blob *blob, uint64_t at, char *data, size_t n)
{
        size_t done = 0;

        while (done < n) {
                ssize_t got = pread(blob->fd, data + done, n - done,
                                    (off_t)(blob->offset + at + done));
                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return -errno;
                if (got == 0)
                        break;
                done += (size_t)got;
        }
        return (ssize_t)done;
}

static int compare(struct hash *hash, const struct digest *expected, struct error *err)
{
        char is[DIGEST_HEX + 1], should[DIGEST_HEX + 1];
        struct digest digest;

        if (hash_end(hash, &digest) < 0)
                return error_errno(err, EIO, "SHA-256");
        if (memcmp(digest.bytes, expected->bytes, DIGEST_BYTES) == 0)
                return 0;
        digest_hex(&digest, is);
        digest_hex(expected, should);
        return error_set(err, EBADMSG,
                         "its content has the digest sha256:%.16s…, not sha256:%.16s…", is, should);
}

int source_read(const struct source *source, const char *name, struct hash *hash,
                const struct digest *expected, char **ret, size_t *n, struct error *err)
{
        struct blob blob;
        char shown[100];

        int r = source_find(source, name, &blob, err);
        if (r < 0)
                return r;
        escape(shown, name);
        _cleanup_free_ char *data = blob.size > BUDGET_JSON_MAX ? NULL : malloc(blob.size + 1);
        ssize_t got = data ? read_at(&blob, 0, data, blob.size) : 0;
        source_release(source, &blob);
        if (blob.size > BUDGET_JSON_MAX)
                return error_set(err, EFBIG, "\"%s\" is larger than %d bytes", shown,
                                 BUDGET_JSON_MAX);
        if (!data)
                return error_errno(err, ENOMEM, "\"%s\"", shown);
        if (got < 0 || (uint64_t)got != blob.size)
                return error_set(err, EBADMSG, "\"%s\" is cut off", shown);
        data[got] = '\0';
        if (expected) {
                if (hash_begin(hash) < 0 || hash_add(hash, data, (size_t)got) < 0)
                        return error_errno(err, EIO, "SHA-256");
                r = compare(hash, expected, err);
                if (r < 0)
                        return error_context(err, "\"%s\"", shown);
        }
        *ret = take_ptr(data);
        *n = (size_t)got;
        return 0;
}

int source_check(const struct blob *blob, struct hash *hash, const struct digest *expected,
                 struct error *err)
{
        _cleanup_free_ char *chunk = malloc(CHUNK);

        if (!chunk || hash_begin(hash) < 0)
                return error_errno(err, ENOMEM, "SHA-256");
        for (uint64_t at = 0; at < blob->size;) {
                size_t want = blob->size - at < CHUNK ? (size_t)(blob->size - at) : CHUNK;
                ssize_t n = read_at(blob, at, chunk, want);
                if (n < 0)
                        return error_errno(err, (int)-n, "read it");
                if ((size_t)n < want)
                        return error_set(err, EBADMSG, "it is cut off");
                if (hash_add(hash, chunk, want) < 0)
                        return error_errno(err, EIO, "SHA-256");
                at += want;
        }
        return compare(hash, expected, err);
}
