/* Records of files: bytes, bounds and order. */
#include "rpc/file-stream.h"

#include <errno.h>

#include "base/file-path.h"

int file_stream_append(struct buffer *to, enum file_stream_type type, const void *payload, size_t n)
{
        const uint8_t header[FILE_STREAM_HEADER] = {
                [0] = (uint8_t)type,      [4] = (uint8_t)n,         [5] = (uint8_t)(n >> 8),
                [6] = (uint8_t)(n >> 16), [7] = (uint8_t)(n >> 24),
        };

        if (n > FILE_STREAM_PIECE_MAX)
                return -EMSGSIZE;
        int r = buffer_reserve(to, sizeof(header) + n);
        if (r < 0)
                return r;
        r = buffer_append(to, header, sizeof(header));
        return r < 0 ? r : buffer_append(to, payload, n);
}

/* Whether the record is allowed now; if so, updates the state. */
static int advance(struct file_stream *s, const struct file_record *record, struct error *err)
{
        bool begins = record->type == FILE_STREAM_FILE || record->type == FILE_STREAM_END;
        bool has_payload = record->type == FILE_STREAM_FILE || record->type == FILE_STREAM_DATA;

        if (s->ended || begins == s->open)
                return error_set(err, EBADMSG, "record of type %d out of order", record->type);
        if (record->n > 0 && !has_payload)
                return error_set(err, EBADMSG, "record of type %d with a payload", record->type);
        if (record->type == FILE_STREAM_FILE && !file_path_valid(record->payload, record->n))
                return error_set(err, EBADMSG, "a name that is not a path below a directory");
        if (record->type == FILE_STREAM_FILE && s->files == FILE_STREAM_FILES_MAX)
                return error_set(err, EFBIG, "more than %d files", FILE_STREAM_FILES_MAX);
        if (record->type == FILE_STREAM_DATA && record->n > FILE_STREAM_BYTES_MAX - s->bytes)
                return error_set(err, EFBIG, "files of more than %llu GiB together",
                                 FILE_STREAM_BYTES_MAX >> 30);
        s->files += record->type == FILE_STREAM_FILE;
        s->bytes += record->type == FILE_STREAM_DATA ? record->n : 0;
        s->open = record->type == FILE_STREAM_FILE || record->type == FILE_STREAM_DATA;
        s->ended = record->type == FILE_STREAM_END;
        return 1;
}

int file_stream_peek(struct file_stream *s, const struct buffer *from, struct file_record *ret,
                     struct error *err)
{
        const uint8_t *header = (const uint8_t *)buffer_bytes(from);

        if (from->length < FILE_STREAM_HEADER)
                return 0;
        uint32_t n = header[4] | header[5] << 8 | header[6] << 16 | (uint32_t)header[7] << 24;
        if (header[0] < FILE_STREAM_FILE || header[0] > FILE_STREAM_END)
                return error_set(err, EBADMSG, "record of unknown type %d", header[0]);
        if (header[1] || header[2] || header[3])
                return error_set(err, EBADMSG, "record with a reserved byte that is not 0");
        if (n > FILE_STREAM_PIECE_MAX)
                return error_set(err, EBADMSG, "record of %u bytes", n);
        if (from->length - FILE_STREAM_HEADER < n)
                return 0;
        *ret = (struct file_record){.type = (enum file_stream_type)header[0],
                                    .payload = buffer_bytes(from) + FILE_STREAM_HEADER,
                                    .n = n};
        return advance(s, ret, err);
}
