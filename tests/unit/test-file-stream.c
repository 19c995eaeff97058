/* Records of files: their bytes, and the orders that are refused. */
#include "rpc/file-stream.h"

#include <errno.h>

#include "tests/unit/test.h"

static int take(struct file_stream *s, enum file_stream_type type, const char *text)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(4096);
        struct file_record record;
        struct error err = {};

        check_eq_int(file_stream_append(&b, type, text, strlen(text)), 0);
        int r = file_stream_peek(s, &b, &record, &err);
        if (r > 0) {
                check_eq_int(record.type, type);
                check_eq_bytes(record.payload, record.n, text);
        }
        return r;
}

static void test_order(void)
{
        struct file_stream s = {};

        check_eq_int(take(&s, FILE_STREAM_DATA, "x"), -EBADMSG);
        check_eq_int(take(&s, FILE_STREAM_CLOSE, ""), -EBADMSG);
        check_eq_int(take(&s, FILE_STREAM_ABORT, ""), -EBADMSG);
        check_eq_int(take(&s, FILE_STREAM_FILE, "a"), 1);
        check_eq_int(take(&s, FILE_STREAM_FILE, "b"), -EBADMSG);
        check_eq_int(take(&s, FILE_STREAM_END, ""), -EBADMSG);
        check_eq_int(take(&s, FILE_STREAM_CLOSE, "x"), -EBADMSG);
        check_eq_int(take(&s, FILE_STREAM_DATA, "xy"), 1);
        check_eq_int(take(&s, FILE_STREAM_CLOSE, ""), 1);
        check_eq_int(take(&s, FILE_STREAM_END, ""), 1);
        check(s.ended && s.files == 1 && s.bytes == 2);
        check_eq_int(take(&s, FILE_STREAM_FILE, "c"), -EBADMSG);
        check_eq_int(take(&s, FILE_STREAM_END, ""), -EBADMSG);
}

static void test_bounds(void)
{
        struct file_stream many = {.files = FILE_STREAM_FILES_MAX},
                           large = {.open = true, .bytes = FILE_STREAM_BYTES_MAX - 1};
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(FILE_STREAM_PIECE_MAX + 100);

        check_eq_int(take(&many, FILE_STREAM_FILE, "a"), -EFBIG);
        check_eq_int(take(&large, FILE_STREAM_DATA, "ab"), -EFBIG);
        check_eq_int(take(&large, FILE_STREAM_DATA, "a"), 1);
        check_eq_int(file_stream_append(&b, FILE_STREAM_DATA, "", FILE_STREAM_PIECE_MAX + 1),
                     -EMSGSIZE);
}

static void test_bytes(void)
{
        static const unsigned char records[][8] = {
                {0}, {6}, {5, 1}, {5, 0, 1}, {5, 0, 0, 1}, {2, 0, 0, 0, 1, 0, 0x10}};
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(100);
        struct file_stream s = {};
        struct file_record record;

        for (size_t i = 0; i < ARRAY_SIZE(records); i++) {
                struct error err = {};
                buffer_consume(&b, b.length);
                check_eq_int(buffer_append(&b, records[i], 8), 0);
                check_eq_int(file_stream_peek(&s, &b, &record, &err), -EBADMSG);
        }
        /* Not complete yet. */
        buffer_consume(&b, b.length);
        check_eq_int(buffer_append(&b, "\1\0\0\0\2\0\0\0a", 9), 0);
        check_eq_int(file_stream_peek(&s, &b, &record, NULL), 0);
        check_eq_int(buffer_append(&b, "b", 1), 0);
        check_eq_int(file_stream_peek(&s, &b, &record, NULL), 1);
        check_eq_bytes(record.payload, record.n, "ab");
}

int main(void)
{
        run(test_order);
        run(test_bounds);
        run(test_bytes);
        return 0;
}
