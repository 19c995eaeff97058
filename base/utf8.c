/* Checks UTF-8 piece by piece. */
#include "base/utf8.h"

#include <string.h>

/* The lead byte's length, and the range of the second byte, which excludes overlong forms,
 * surrogates and what lies above U+10FFFF (Unicode 15, table 3-7). Length 0: no lead byte. */
struct lead {
        int length;
        unsigned char low, high;
};

static struct lead lead_of(unsigned char c)
{
        if (c < 0x80)
                return (struct lead){1, 0, 0};
        if (c < 0xc2)
                return (struct lead){0, 0, 0};
        if (c < 0xe0)
                return (struct lead){2, 0x80, 0xbf};
        if (c < 0xf0)
                return (struct lead){3, c == 0xe0 ? 0xa0 : 0x80, c == 0xed ? 0x9f : 0xbf};
        if (c < 0xf5)
                return (struct lead){4, c == 0xf0 ? 0x90 : 0x80, c == 0xf4 ? 0x8f : 0xbf};
        return (struct lead){0, 0, 0};
}

int utf8_next(const unsigned char *s, size_t n)
{
        struct lead lead = lead_of(s[0]);

        if (lead.length == 0)
                return -1;
        for (int i = 1; i < lead.length; i++) {
                if ((size_t)i == n)
                        return 0;
                unsigned char low = i == 1 ? lead.low : 0x80, high = i == 1 ? lead.high : 0xbf;
                if (s[i] < low || s[i] > high)
                        return -i;
        }
        return lead.length;
}

uint32_t utf8_decode(const unsigned char *s, int length)
{
        static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
        uint32_t c = s[0] & masks[length];

        for (int i = 1; i < length; i++)
                c = c << 6 | (s[i] & 0x3f);
        return c;
}

static int replace(utf8_sink *sink, void *data)
{
        return sink(data, "\xef\xbf\xbd", 3);
}

/* Completes the pending character byte by byte. Returns the bytes used or negative errno. */
static int feed_pending(struct utf8_stream *stream, const char *bytes, size_t n, size_t *used,
                        utf8_sink *sink, void *data)
{
        *used = 0;
        while (stream->n_pending > 0 && *used < n) {
                stream->pending[stream->n_pending++] = (unsigned char)bytes[*used];
                int length = utf8_next(stream->pending, stream->n_pending);
                if (length == 0) {
                        (*used)++;
                        continue;
                }
                /* An ill-formed part ends before the byte just added, which starts something new.
                 */
                int r = 0;
                if (length > 0) {
                        (*used)++;
                        r = sink(data, (const char *)stream->pending, (size_t)length);
                } else {
                        r = replace(sink, data);
                }
                stream->n_pending = 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

/* The number of ASCII bytes at the front, eight at once because most output is ASCII. */
static size_t ascii_run(const unsigned char *s, size_t n)
{
        size_t at = 0;
        uint64_t eight;

        for (; at + sizeof(eight) <= n; at += sizeof(eight)) {
                memcpy(&eight, s + at, sizeof(eight));
                if (eight & 0x8080808080808080)
                        break;
        }
        return at;
}

int utf8_feed(struct utf8_stream *stream, const char *bytes, size_t n, utf8_sink *sink, void *data)
{
        const unsigned char *s = (const unsigned char *)bytes;
        size_t at = 0;
        int r = feed_pending(stream, bytes, n, &at, sink, data);
        size_t begin = at;

        while (r >= 0 && at < n) {
                at += ascii_run(s + at, n - at);
                if (at == n)
                        break;
                int length = utf8_next(s + at, n - at);
                if (length > 0) {
                        at += (size_t)length;
                        continue;
                }
                if (at > begin)
                        r = sink(data, bytes + begin, at - begin);
                if (r >= 0 && length < 0)
                        r = replace(sink, data);
                if (length == 0) {
                        memcpy(stream->pending, s + at, n - at);
                        stream->n_pending = n - at;
                        return r;
                }
                at += (size_t)-length;
                begin = at;
        }
        if (r >= 0 && at > begin)
                r = sink(data, bytes + begin, at - begin);
        return r;
}

int utf8_finish(struct utf8_stream *stream, utf8_sink *sink, void *data)
{
        if (stream->n_pending == 0)
                return 0;
        stream->n_pending = 0;
        return replace(sink, data);
}

static bool begins_character(char c)
{
        return ((unsigned char)c & 0xc0) != 0x80;
}

bool utf8_is_valid(const char *text, size_t n)
{
        for (size_t at = 0; at < n;) {
                int length = utf8_next((const unsigned char *)text + at, n - at);
                if (length <= 0)
                        return false;
                at += (size_t)length;
        }
        return true;
}

size_t utf8_count(const char *text, size_t n)
{
        size_t count = 0;

        for (size_t i = 0; i < n; i++)
                count += begins_character(text[i]);
        return count;
}

size_t utf8_skip(const char *text, size_t n, size_t characters)
{
        size_t at = 0;

        for (; at < n; at++) {
                if (begins_character(text[at]) && characters-- == 0)
                        break;
        }
        return at;
}

size_t utf8_skip_back(const char *text, size_t n, size_t *characters)
{
        size_t at = n;

        while (at > 0 && *characters > 0) {
                at--;
                if (begins_character(text[at]))
                        (*characters)--;
        }
        return at;
}

size_t utf8_cut(const char *text, size_t n, size_t most)
{
        if (n <= most)
                return n;
        while (most > 0 && ((unsigned char)text[most] & 0xc0) == 0x80)
                most--;
        return most;
}

void utf8_trim(char *text)
{
        size_t n = strlen(text);

        for (size_t back = 1; back <= 3 && back <= n; back++) {
                unsigned char *last = (unsigned char *)text + n - back;
                if ((*last & 0xc0) == 0x80)
                        continue;
                if (utf8_next(last, back) == 0)
                        *last = '\0';
                return;
        }
}
