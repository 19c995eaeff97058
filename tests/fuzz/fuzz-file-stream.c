/* The stream that --out's receiver reads: accepted when it is whole and in order. */
#include "rpc/file-stream.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

#include "base/file-path.h"

/* A record that was read is written as the same bytes; a path leads nowhere else. */
static void check_record(const struct buffer *in, const struct file_record *record)
{
        _cleanup_buffer_ struct buffer out = BUFFER_INIT(FILE_STREAM_HEADER +
                                                         FILE_STREAM_PIECE_MAX);

        assert(file_stream_append(&out, record->type, record->payload, record->n) == 0);
        assert(memcmp(buffer_bytes(&out), buffer_bytes(in), out.length) == 0);
        if (record->type != FILE_STREAM_FILE)
                return;
        assert(record->n > 0 && record->payload[0] != '/' && record->n <= FILE_PATH_MAX);
        assert(!memchr(record->payload, '\0', record->n));
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        _cleanup_buffer_ struct buffer in = BUFFER_INIT(n + 1);
        struct file_stream stream = {};
        struct file_record record = {};
        int r = 0;

        for (size_t i = 0; i < n && r >= 0; i++) {
                struct error err = {};

                assert(buffer_append(&in, data + i, 1) == 0);
                r = file_stream_peek(&stream, &in, &record, &err);
                assert(r >= 0 || error_is_set(&err));
                if (r != 1)
                        continue;
                check_record(&in, &record);
                buffer_consume(&in, FILE_STREAM_HEADER + record.n);
        }
        return r >= 0 && in.length == 0 && stream.ended;
}

FUZZ_TARGET
