/* Escaping for terminals. */
#include "base/terminal.h"

#include <stdint.h>
#include <string.h>

#include "base/printable.h"

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
