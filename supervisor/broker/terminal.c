/* Escaping for terminals. */
#include "supervisor/broker/terminal.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Ranges of code points that change how a terminal shows other text, or hide in it (Unicode 15,
 * Bidi_Control and Default_Ignorable_Code_Point of general use). */
static const struct {
        uint32_t first, last;
} hidden[] = {
        {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},       {0x61c, 0x61c},
        {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},   {0x2060, 0x206f},
        {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f},
};

static bool is_hidden(uint32_t c)
{
        for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++) {
                if (c >= hidden[i].first && c <= hidden[i].last)
                        return true;
        }
        return false;
}

struct escaping {
        struct buffer *to;
        const char *allowed; /* controls that pass */
};

static int put(void *data, const char *text, size_t n)
{
        const struct escaping *e = data;
        const unsigned char *s = (const unsigned char *)text;
        size_t begin = 0, at = 0;
        int r = 0;

        while (at < n && r >= 0) {
                int length = utf8_next(s + at, n - at);
                uint32_t c = utf8_decode(s + at, length);
                if (is_hidden(c) && !(c != 0 && c < 0x80 && strchr(e->allowed, (int)c))) {
                        r = buffer_append(e->to, text + begin, at - begin);
                        if (r >= 0)
                                r = buffer_printf(e->to, c < 0x100 ? "\\x%02x" : "\\u%04x", c);
                        begin = at + (size_t)length;
                }
                at += (size_t)length;
        }
        return r < 0 ? r : buffer_append(e->to, text + begin, at - begin);
}

int terminal_escape(struct utf8_stream *stream, const char *bytes, size_t n, struct buffer *to)
{
        struct escaping e = {.to = to, .allowed = "\n\t\r"};

        return utf8_feed(stream, bytes, n, put, &e);
}

int terminal_escape_line(const char *text, size_t n, struct buffer *to)
{
        struct escaping e = {.to = to, .allowed = ""};
        struct utf8_stream stream = {};
        int r = utf8_feed(&stream, text, n, put, &e);

        return r < 0 ? r : utf8_finish(&stream, put, &e);
}
