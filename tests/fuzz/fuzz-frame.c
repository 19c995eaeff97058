/* A stream of frames, as the broker reads them: accepted when every frame is whole and proper. */
#include "rpc/frame.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

enum { MOST = 1024 };

/* A frame that was read is written as the same bytes. */
static void check_round(const struct buffer *in, const struct frame_header *header,
                        const char *payload)
{
        _cleanup_buffer_ struct buffer out = BUFFER_INIT(FRAME_HEADER_SIZE + MOST);

        if (header->flags != 0) {
                assert(header->flags == FRAME_IN_MEMFD && header->type == FRAME_RETURN);
                assert(!payload && frame_size(header) == FRAME_HEADER_SIZE);
                return;
        }
        assert(frame_append(&out, header->type, header->id, payload, header->length) == 0);
        assert(out.length == FRAME_HEADER_SIZE + header->length);
        assert(memcmp(buffer_bytes(&out), buffer_bytes(in), out.length) == 0);
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        _cleanup_buffer_ struct buffer in = BUFFER_INIT(n + 1);
        struct frame_header header;
        const char *payload = NULL;
        int r = 0;

        for (size_t i = 0; i < n && r >= 0; i++) {
                struct error err = {};

                assert(buffer_append(&in, data + i, 1) == 0);
                r = frame_peek(&in, MOST, &header, &payload, &err);
                assert(r >= 0 || error_is_set(&err));
                if (r != 1)
                        continue;
                assert(header.length <= MOST);
                assert(!payload || payload == buffer_bytes(&in) + FRAME_HEADER_SIZE);
                check_round(&in, &header, payload);
                buffer_consume(&in, frame_size(&header));
        }
        return r >= 0 && in.length == 0;
}

FUZZ_TARGET
