/* The uncompressed bytes of a blob, by libarchive's filters. */
#include "rootfs/oci/stream.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/printable.h"

enum { CHUNK = 256 * 1024 };

struct stream {
        struct archive *archive;
        struct blob blob;
        uint64_t at;  /* bytes of the blob that were read */
        uint64_t out; /* uncompressed bytes */
        struct budget *budget;
        int failed; /* errno of the file */
        bool ended;
        char chunk[CHUNK];
};

static la_ssize_t on_read(struct archive *archive, void *data, const void **ret)
{
        struct stream *s = data;
        uint64_t left = s->blob.size - s->at;
        size_t n = left < CHUNK ? (size_t)left : CHUNK;
        ssize_t got;

        *ret = s->chunk;
        do {
                got = pread(s->blob.fd, s->chunk, n, (off_t)(s->blob.offset + s->at));
        } while (got < 0 && errno == EINTR);
        if (got < 0) {
                s->failed = errno;
                archive_set_error(archive, s->failed, "the file cannot be read");
                return ARCHIVE_FATAL;
        }
        s->at += (uint64_t)got;
        return got;
}

static int fail(const struct stream *s, struct error *err)
{
        char why[160];
        const char *text = archive_error_string(s->archive);

        if (s->failed)
                return error_errno(err, s->failed, "read it");
        printable_escape(why, sizeof(why), text ? text : "no reason is known");
        return error_set(err, EBADMSG, "it is damaged or cut off (%s)", why);
}

int stream_open(const struct blob *blob, struct budget *budget, struct stream **ret,
                struct error *err)
{
        struct archive_entry *entry;
        struct stream *s = calloc(1, sizeof(*s));

        if (!s)
                return error_errno(err, ENOMEM, "layer");
        s->blob = *blob;
        s->budget = budget;
        s->archive = archive_read_new();
        if (!s->archive || archive_read_support_filter_gzip(s->archive) < ARCHIVE_WARN ||
            archive_read_support_filter_zstd(s->archive) < ARCHIVE_WARN ||
            archive_read_support_format_raw(s->archive) < ARCHIVE_WARN ||
            archive_read_support_format_empty(s->archive) < ARCHIVE_WARN) {
                stream_close(s);
                return error_errno(err, ENOMEM, "layer");
        }
        if (archive_read_open(s->archive, s, NULL, on_read, NULL) < ARCHIVE_WARN) {
                int r = fail(s, err);
                stream_close(s);
                return r;
        }
        int r = archive_read_next_header(s->archive, &entry);
        if (r < ARCHIVE_WARN) {
                r = fail(s, err);
                stream_close(s);
                return r;
        }
        s->ended = r == ARCHIVE_EOF;
        *ret = s;
        return 0;
}

struct stream *stream_close(struct stream *s)
{
        if (!s)
                return NULL;
        archive_read_free(s->archive);
        free(s);
        return NULL;
}

ssize_t stream_next(struct stream *s, const void **ret, struct error *err)
{
        la_int64_t offset = 0;
        size_t n = 0;

        while (n == 0) {
                int r = s->ended ? ARCHIVE_EOF
                                 : archive_read_data_block(s->archive, ret, &n, &offset);
                if (r == ARCHIVE_EOF) {
                        s->ended = true;
                        return 0;
                }
                if (r < ARCHIVE_OK)
                        return fail(s, err);
        }
        s->out += n;
        int r = budget_read(s->budget, n, s->out, s->at, err);
        return r < 0 ? r : (ssize_t)n;
}
