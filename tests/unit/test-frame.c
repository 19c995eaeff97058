/* Frames: every refusal of a header, bytes that arrive one by one, the bounds. */
#include "rpc/frame.h"
#include "tests/unit/test.h"

static const uint8_t good[FRAME_HEADER_SIZE] = {
        2, 0, 0, 0, FRAME_EXEC, 0, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
};

static int decode(const uint8_t *bytes, uint32_t most, struct error *err)
{
        struct frame_header header;

        *err = (struct error){};
        return frame_header_decode(bytes, most, &header, err);
}

static void test_header_bytes(void)
{
        const struct frame_header header = {
                .length = 2, .type = FRAME_EXEC, .id = 0x1122334455667788};
        uint8_t bytes[FRAME_HEADER_SIZE];
        struct frame_header back;
        struct error err = {};

        frame_header_encode(&header, bytes);
        check(memcmp(bytes, good, sizeof(good)) == 0);
        check_ok(frame_header_decode(bytes, 2, &back, &err));
        check_eq_int(back.length, 2);
        check_eq_int(back.type, FRAME_EXEC);
        check_eq_int(back.id, header.id);
}

static void test_header_refusals(void)
{
        uint8_t bytes[FRAME_HEADER_SIZE];
        struct error err;

        for (int type = 0; type < 256; type++) {
                memcpy(bytes, good, sizeof(good));
                bytes[4] = (uint8_t)type;
                bool known = strcmp(frame_type_name((uint8_t)type), "unknown") != 0;
                check_eq_int(decode(bytes, 2, &err), known ? 0 : -EBADMSG);
                check(known || strstr(err.text, "unknown type"));
        }
        for (int bit = 0; bit < 8; bit++) {
                memcpy(bytes, good, sizeof(good));
                bytes[5] = (uint8_t)(1 << bit);
                check_eq_int(decode(bytes, 2, &err), -EBADMSG);
                check_has(err.text, "flags");
        }
        for (int bit = 0; bit < 16; bit++) {
                memcpy(bytes, good, sizeof(good));
                bytes[6 + bit / 8] = (uint8_t)(1 << bit % 8);
                check_eq_int(decode(bytes, 2, &err), -EBADMSG);
                check_has(err.text, "reserved");
        }
}

/* Only a RETURN has its payload in a memfd; no part of it is in the stream. */
static void test_in_memfd(void)
{
        struct buffer in = BUFFER_INIT(1024);
        struct frame_header header;
        const char *payload = "";
        uint8_t bytes[FRAME_HEADER_SIZE];
        struct error err = {};

        for (int type = 0; type < 256; type++) {
                if (strcmp(frame_type_name((uint8_t)type), "unknown") == 0)
                        continue;
                memcpy(bytes, good, sizeof(good));
                bytes[4] = (uint8_t)type;
                bytes[5] = FRAME_IN_MEMFD;
                check_eq_int(decode(bytes, 2, &err), type == FRAME_RETURN ? 0 : -EBADMSG);
                bytes[5] = FRAME_IN_MEMFD | 0x10;
                check_eq_int(decode(bytes, 2, &err), -EBADMSG);
                check_has(err.text, "flags 0x1");
        }
        bytes[4] = FRAME_RETURN;
        bytes[5] = FRAME_IN_MEMFD;
        check_eq_int(buffer_append(&in, bytes, sizeof(bytes)), 0);
        check_eq_int(frame_append(&in, FRAME_EXEC, 1, "{}", 2), 0);
        check_eq_int(frame_peek(&in, 2, &header, &payload, &err), 1);
        check_eq_int(header.length, 2);
        check_eq_int(frame_size(&header), FRAME_HEADER_SIZE);
        check(!payload);
        check_eq_int(frame_peek(&in, 1, &header, &payload, &err), -EMSGSIZE);
        buffer_consume(&in, frame_size(&header));
        check_eq_int(frame_peek(&in, 2, &header, &payload, &err), 1);
        check_eq_int(header.type, FRAME_EXEC);
        check_eq_bytes(payload, header.length, "{}");
        buffer_done(&in);
}

static void test_parts(void)
{
        struct buffer b = BUFFER_INIT(FRAME_HEADER_SIZE + 5);
        struct iovec parts[] = {{(char *)"12", 2}, {NULL, 0}, {(char *)"345", 3}};
        struct frame_header header;
        const char *payload = NULL;
        struct error err = {};

        check_eq_int(frame_append_parts(&b, FRAME_RETURN, 9, parts, 3), 0);
        check_eq_int(frame_peek(&b, 5, &header, &payload, &err), 1);
        check_eq_bytes(payload, header.length, "12345");
        check_eq_int(frame_append_parts(&b, FRAME_RETURN, 9, parts, 3), -EMSGSIZE);
        check_eq_int(b.length, FRAME_HEADER_SIZE + 5);
        buffer_done(&b);
}

static void test_length_bound(void)
{
        uint8_t bytes[FRAME_HEADER_SIZE];
        struct error err;

        memcpy(bytes, good, sizeof(good));
        check_eq_int(decode(bytes, 2, &err), 0);
        check_eq_int(decode(bytes, 1, &err), -EMSGSIZE);
        check_eq_str(err.text, "EXEC frame of 2 bytes, at most 1 are allowed");
        memset(bytes, 0xff, 4);
        check_eq_int(decode(bytes, FRAME_PAYLOAD_MAX, &err), -EMSGSIZE);
        check_eq_int(frame_header_decode(bytes, 1, &(struct frame_header){}, NULL), -EMSGSIZE);
}

static void test_types(void)
{
        check_eq_str(frame_type_name(FRAME_DROP), "DROP");
        check_eq_str(frame_type_name(FRAME_CATALOG), "CATALOG");
        check_eq_str(frame_type_name(0), "unknown");
        check_eq_str(frame_type_name(0xff), "unknown");
}

/* Two frames, fed byte by byte: each is complete at its last byte and not before. */
static void test_byte_by_byte(void)
{
        struct buffer out = BUFFER_INIT(1024), in = BUFFER_INIT(1024);
        struct frame_header header;
        const char *payload = NULL;
        struct error err = {};
        int seen = 0;

        check_eq_int(frame_append(&out, FRAME_CALL, 7, "{}", 2), 0);
        check_eq_int(frame_append(&out, FRAME_LOG, UINT64_MAX, NULL, 0), 0);
        for (size_t i = 0; i < out.length; i++) {
                check_eq_int(buffer_append(&in, buffer_bytes(&out) + i, 1), 0);
                int r = frame_peek(&in, 100, &header, &payload, &err);
                check_eq_int(r, i == FRAME_HEADER_SIZE + 1 || i == out.length - 1);
                if (r == 0)
                        continue;
                check_eq_int(header.type, seen == 0 ? FRAME_CALL : FRAME_LOG);
                check(header.id == (seen == 0 ? 7 : UINT64_MAX));
                check_eq_bytes(payload, header.length, seen == 0 ? "{}" : "");
                buffer_consume(&in, FRAME_HEADER_SIZE + header.length);
                seen++;
        }
        check_eq_int(seen, 2);
        check_eq_int(in.length, 0);
        buffer_done(&in);
        buffer_done(&out);
}

static void test_bad_frame_is_refused_at_its_header(void)
{
        struct buffer in = BUFFER_INIT(1024);
        struct frame_header header;
        const char *payload = NULL;
        struct error err = {};

        check_eq_int(frame_append(&in, FRAME_CALL, 7, "0123456789", 10), 0);
        in.length = FRAME_HEADER_SIZE;
        check_eq_int(frame_peek(&in, 10, &header, &payload, &err), 0);
        check_eq_int(frame_peek(&in, 9, &header, &payload, &err), -EMSGSIZE);
        in.data[4] = 0x7f;
        check_eq_int(frame_peek(&in, 10, &header, &payload, &err), -EBADMSG);
        buffer_done(&in);
}

static void test_append_is_whole_or_nothing(void)
{
        struct buffer b = BUFFER_INIT(FRAME_HEADER_SIZE + 4);

        check_eq_int(frame_append(&b, FRAME_CALL, 1, "12345", 5), -EMSGSIZE);
        check_eq_int(b.length, 0);
        check_eq_int(frame_append(&b, FRAME_CALL, 1, "1234", 4), 0);
        check_eq_int(b.length, FRAME_HEADER_SIZE + 4);
        check_eq_int(frame_append(&b, FRAME_CALL, 1, NULL, (size_t)FRAME_PAYLOAD_MAX + 1),
                     -EMSGSIZE);
        buffer_done(&b);
}

static void test_largest(void)
{
        struct buffer b = BUFFER_INIT((size_t)FRAME_HEADER_SIZE + FRAME_PAYLOAD_MAX);
        char *payload = calloc(1, FRAME_PAYLOAD_MAX);
        struct frame_header header;
        const char *view = NULL;
        struct error err = {};

        check(payload);
        check_eq_int(frame_append(&b, FRAME_RETURN, 1, payload, FRAME_PAYLOAD_MAX), 0);
        check_eq_int(frame_peek(&b, FRAME_PAYLOAD_MAX, &header, &view, &err), 1);
        check_eq_int(header.length, FRAME_PAYLOAD_MAX);
        free(payload);
        buffer_done(&b);
}

int main(void)
{
        run(test_header_bytes);
        run(test_header_refusals);
        run(test_in_memfd);
        run(test_parts);
        run(test_length_bound);
        run(test_types);
        run(test_byte_by_byte);
        run(test_bad_frame_is_refused_at_its_header);
        run(test_append_is_whole_or_nothing);
        run(test_largest);
        return 0;
}
