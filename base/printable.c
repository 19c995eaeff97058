/* Which characters a terminal may be given, and how the others are shown. */
#include "base/printable.h"

#include <string.h>

enum { SHOWN_MAX = 16 };

/* Unicode 15: controls, Bidi_Control, and Default_Ignorable_Code_Point without the variation selectors
 * U+FE00 to U+FE0F, which are in common text. */
static const struct {
        uint32_t first, last;
} hidden[] = {
        {0x00, 0x1f},       {0x7f, 0x9f},       {0xad, 0xad},     {0x34f, 0x34f},
        {0x61c, 0x61c},     {0x115f, 0x1160},   {0x17b4, 0x17b5}, {0x180b, 0x180f},
        {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f}, {0x3164, 0x3164},
        {0xfeff, 0xfeff},   {0xffa0, 0xffa0},   {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3},
        {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
};

bool printable_is(uint32_t c)
{
        if (c >= 0x20 && c < 0x7f)
                return true;
        for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++) {
                if (c >= hidden[i].first && c <= hidden[i].last)
                        return false;
        }
        return true;
}

/* The first character of n > 0 bytes. Returns its length; `shown` is how it is shown. */
static size_t show(const unsigned char *s, size_t n, char shown[SHOWN_MAX])
{
        int length = utf8_next(s, n);

        if (length <= 0) {
                /* A lone C1 byte is a control where the terminal has no UTF-8. */
                snprintf(shown, SHOWN_MAX, s[0] < 0xa0 ? "\\x%02x" : "%c", s[0]);
                return 1;
        }
        uint32_t c = utf8_decode(s, length);
        if (printable_is(c))
                snprintf(shown, SHOWN_MAX, "%.*s", length, (const char *)s);
        else if (length == 1)
                snprintf(shown, SHOWN_MAX, "\\x%02x", c);
        else if (c < 0x100)
                snprintf(shown, SHOWN_MAX, "\\x%02x\\x%02x", s[0], s[1]);
        else
                snprintf(shown, SHOWN_MAX, "\\u%04x", c);
        return (size_t)length;
}

size_t printable_escape(char *to, size_t size, const char *text)
{
        const unsigned char *s = (const unsigned char *)text;
        size_t n = strlen(text), written = 0;
        char shown[SHOWN_MAX];

        for (size_t at = 0; at < n;) {
                if (s[at] >= 0x20 && s[at] < 0x7f) {
                        if (written + 1 >= size)
                                break;
                        to[written++] = text[at++];
                        continue;
                }
                size_t length = show(s + at, n - at, shown), m = strlen(shown);
                if (written + m >= size)
                        break;
                memcpy(to + written, shown, m);
                written += m;
                at += length;
        }
        to[written] = '\0';
        return written;
}

void printable_print(FILE *to, const char *text)
{
        const unsigned char *s = (const unsigned char *)text;
        size_t n = strlen(text);
        char shown[SHOWN_MAX];

        for (size_t at = 0; at < n;) {
                at += show(s + at, n - at, shown);
                fputs(shown, to);
        }
}

/* JSON can say them in another way without a loss: blanks that look like a space or like nothing, and variation selectors. The
 * ideographic space is in common text. */
static bool is_doubtful_in_json(uint32_t c)
{
        static const struct {
                uint32_t first, last;
        } doubtful[] = {
                {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a}, {0x202f, 0x202f},
                {0x205f, 0x205f}, {0x2800, 0x2800}, {0xfe00, 0xfe0f},
        };

        for (size_t i = 0; i < sizeof(doubtful) / sizeof(doubtful[0]); i++) {
                if (c >= doubtful[i].first && c <= doubtful[i].last)
                        return true;
        }
        return false;
}

/* Controls below U+0020 are only between the values, where they are layout. */
int printable_json(struct buffer *to, const char *json, size_t n)
{
        const unsigned char *s = (const unsigned char *)json;
        size_t begin = 0;
        int r = 0;

        for (size_t at = 0; at < n && r >= 0;) {
                int length = utf8_next(s + at, n - at);
                uint32_t c = length > 0 ? utf8_decode(s + at, length) : 0x20;
                size_t end = at + (length > 0 ? (size_t)length : 1);
                if (c >= 0x7f && (!printable_is(c) || is_doubtful_in_json(c))) {
                        r = buffer_append(to, json + begin, at - begin);
                        if (r >= 0 && c > 0xffff)
                                r = buffer_printf(to, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10),
                                                  0xdc00 + (c & 0x3ff));
                        else if (r >= 0)
                                r = buffer_printf(to, "\\u%04x", c);
                        begin = end;
                }
                at = end;
        }
        return r < 0 ? r : buffer_append(to, json + begin, n - begin);
}

/* ---- streams ---- */

struct escaping {
        struct buffer *to;
        const char *allowed; /* controls that pass */
        bool *cr;            /* a carriage return waits for the next character; NULL: escaped */
};

/* A carriage return would let code overwrite the line that it printed before: it ends the line. */
static int put_return(const struct escaping *e, uint32_t next)
{
        if (!e->cr || !*e->cr)
                return 0;
        *e->cr = false;
        return next == '\n' ? 0 : buffer_append(e->to, "\n", 1);
}

static int put(void *data, const char *text, size_t n)
{
        const struct escaping *e = data;
        const unsigned char *s = (const unsigned char *)text;
        size_t begin = 0, at = 0;
        int r = 0;

        while (at < n && r >= 0) {
                int length = utf8_next(s + at, n - at);
                uint32_t c = utf8_decode(s + at, length);
                if (at == begin)
                        r = put_return(e, c);
                if (r >= 0 && !printable_is(c) &&
                    !(c != 0 && c < 0x80 && strchr(e->allowed, (int)c))) {
                        r = buffer_append(e->to, text + begin, at - begin);
                        if (r >= 0 && c == '\r' && e->cr)
                                *e->cr = true;
                        else if (r >= 0)
                                r = buffer_printf(e->to, c < 0x100 ? "\\x%02x" : "\\u%04x", c);
                        begin = at + (size_t)length;
                }
                at += (size_t)length;
        }
        return r < 0 ? r : buffer_append(e->to, text + begin, at - begin);
}

int terminal_escape(struct terminal_stream *stream, const char *bytes, size_t n, struct buffer *to)
{
        struct escaping e = {.to = to, .allowed = "\n\t", .cr = &stream->cr};

        return utf8_feed(&stream->utf8, bytes, n, put, &e);
}

int terminal_escape_line(const char *text, size_t n, struct buffer *to)
{
        struct escaping e = {.to = to, .allowed = ""};
        struct utf8_stream stream = {};
        int r = utf8_feed(&stream, text, n, put, &e);

        return r < 0 ? r : utf8_finish(&stream, put, &e);
}
