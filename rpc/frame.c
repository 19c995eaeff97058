/* Frames between a worker and the broker: the header's bytes and its checks. */
#include "rpc/frame.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

enum { TYPES_MAX = 0x80, BROKER = false, WORKER = true };

/* How the payload is sent: columns of frames.def. */
enum payload { TEXT, JSON, MEMFD, FD };

struct row {
        const char *name;
        bool is_worker;
        enum payload payload;
        uint32_t most;
};

static const struct row rows[TYPES_MAX] = {
#define FRAME(name, number, sender, payload, most, ...) [number] = {#name, sender, payload, most},
#include "rpc/frames.def"
#undef FRAME
};

/* Returns NULL if the type is unknown. */
static const struct row *find_row(uint8_t type)
{
        return type < TYPES_MAX && rows[type].name ? &rows[type] : NULL;
}

const char *frame_type_name(uint8_t type)
{
        const struct row *row = find_row(type);
        return row ? row->name : "unknown";
}

bool frame_has_fd(uint8_t type)
{
        const struct row *row = find_row(type);
        return row && row->payload == FD;
}

uint32_t frame_worker_max(uint8_t type)
{
        const struct row *row = find_row(type);
        return row && row->is_worker ? row->most : FRAME_SMALL_MAX;
}

static void put(uint8_t *to, uint64_t value, size_t bytes)
{
        value = htole64(value);
        memcpy(to, &value, bytes);
}

static uint64_t get(const uint8_t *from, size_t bytes)
{
        uint64_t value = 0;

        memcpy(&value, from, bytes);
        return le64toh(value);
}

void frame_header_encode(const struct frame_header *header, uint8_t to[FRAME_HEADER_SIZE])
{
        put(to, header->length, 4);
        to[4] = header->type;
        to[5] = header->flags;
        put(to + 6, header->reserved, 2);
        put(to + 8, header->id, 8);
}

int frame_header_decode(const uint8_t from[FRAME_HEADER_SIZE], uint32_t most,
                        struct frame_header *ret, struct error *err)
{
        struct frame_header header = {
                .length = (uint32_t)get(from, 4),
                .type = from[4],
                .flags = from[5],
                .reserved = (uint16_t)get(from + 6, 2),
                .id = get(from + 8, 8),
        };

        const struct row *row = find_row(header.type);
        if (!row)
                return error_set(err, EBADMSG, "frame of unknown type 0x%02x", header.type);
        uint8_t legal = row->payload == MEMFD ? FRAME_IN_MEMFD : 0;
        if (header.flags & ~legal)
                return error_set(err, EBADMSG, "%s frame with flags 0x%02x, must be 0",
                                 frame_type_name(header.type), header.flags & ~legal);
        if (header.reserved != 0)
                return error_set(err, EBADMSG, "%s frame with reserved field 0x%04x, must be 0",
                                 frame_type_name(header.type), header.reserved);
        if (header.length > most)
                return error_set(err, EMSGSIZE, "%s frame of %u bytes, at most %u are allowed",
                                 frame_type_name(header.type), header.length, most);
        *ret = header;
        return 0;
}

int frame_append_parts(struct buffer *b, uint8_t type, uint64_t id, const struct iovec *parts,
                       size_t n)
{
        uint8_t bytes[FRAME_HEADER_SIZE];
        size_t length = 0;

        for (size_t i = 0; i < n; i++)
                length += parts[i].iov_len;
        if (length > FRAME_PAYLOAD_MAX)
                return -EMSGSIZE;
        /* Reserves space for all parts first, so that no header is appended without its payload. */
        int r = buffer_reserve(b, FRAME_HEADER_SIZE + length);
        if (r < 0)
                return r;
        struct frame_header header = {.length = (uint32_t)length, .type = type, .id = id};
        frame_header_encode(&header, bytes);
        r = buffer_append(b, bytes, sizeof(bytes));
        for (size_t i = 0; i < n && r >= 0; i++)
                r = buffer_append(b, parts[i].iov_base, parts[i].iov_len);
        return r;
}

int frame_append(struct buffer *b, uint8_t type, uint64_t id, const void *payload, size_t n)
{
        return frame_append_parts(
                b, type, id, &(struct iovec){.iov_base = (void *)(uintptr_t)payload, .iov_len = n},
                1);
}

int frame_peek(const struct buffer *b, uint32_t most, struct frame_header *ret,
               const char **payload, struct error *err)
{
        struct frame_header header;

        if (b->length < FRAME_HEADER_SIZE)
                return 0;
        int r = frame_header_decode((const uint8_t *)buffer_bytes(b), most, &header, err);
        if (r < 0)
                return r;
        if (b->length < frame_size(&header))
                return 0;
        *ret = header;
        *payload = header.flags & FRAME_IN_MEMFD ? NULL : buffer_bytes(b) + FRAME_HEADER_SIZE;
        return 1;
}
