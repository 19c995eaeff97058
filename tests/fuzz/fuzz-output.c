/* Output of code in a sandbox, in pieces, and its cut for a reply. The first two bytes are the
 * size of the pieces and of the reply. Accepted when all of it is UTF-8. */
#include "supervisor/session/cell/output.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>

static void check_utf8(const struct buffer *b)
{
        const unsigned char *at = (const unsigned char *)buffer_bytes(b), *end = at + b->length;

        while (at < end) {
                int n = *at < 0x80 ? 1 : utf8_next(at, (size_t)(end - at));
                assert(n > 0);
                at += n;
        }
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(4 * CAPTURE_KEEP);
        struct capture capture;
        bool cut = false;

        if (n < 2)
                return false;
        size_t piece = 1 + data[0], most = data[1];
        capture_init(&capture);
        for (size_t at = 2; at < n; at += piece)
                assert(capture_append(&capture, (const char *)data + at,
                                      n - at < piece ? n - at : piece) == 0);
        assert(capture_finish(&capture) == 0);
        assert(capture.bytes == n - 2);
        assert(capture_render(&capture, most, &text, &cut) == 0);
        assert(cut == (capture.characters > most));
        check_utf8(&text);
        buffer_consume(&text, text.length);
        assert(capture_render(&capture, OUTPUT_CHARACTERS_MAX, &text, &cut) == 0);
        check_utf8(&text);
        bool same = text.length == n - 2 &&
                    (n == 2 || memcmp(buffer_bytes(&text), data + 2, n - 2) == 0);
        capture_done(&capture);
        return same;
}

FUZZ_TARGET
