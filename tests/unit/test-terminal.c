/* Which bytes are written to a terminal. */
#include "base/printable.h"

#include "tests/unit/test.h"

/* The text does not depend on how it is divided. */
static void check_terminal(const char *bytes, size_t n, const char *expected)
{
        for (size_t piece = 1; piece <= n; piece++) {
                struct terminal_stream stream = {};
                _cleanup_buffer_ struct buffer b = BUFFER_INIT(4096);

                for (size_t at = 0; at < n; at += piece)
                        check_eq_int(terminal_escape(&stream, bytes + at,
                                                     at + piece < n ? piece : n - at, &b),
                                     0);
                check_eq_bytes(buffer_bytes(&b), b.length, expected);
        }
}

static void test_terminal(void)
{
        check_terminal("plain\ttext\r\n", 12, "plain\ttext\n");
        check_terminal("safe\revil\r\r\n\rx\r", 15, "safe\nevil\n\n\nx");
        check_terminal("\r\x1b\r", 3, "\n\\x1b");
        check_terminal("\x1b]52;c;QQ==\x07", 12, "\\x1b]52;c;QQ==\\x07");
        check_terminal("a\0b", 3, "a\\x00b");
        check_terminal("\xc2\x9b"
                       "31m",
                       5, "\\x9b31m"); /* C1 CSI as UTF-8 */
        check_terminal("\x9b"
                       "31m",
                       4,
                       "\xef\xbf\xbd"
                       "31m"); /* and as a byte */
        check_terminal("\xe2\x80\xae"
                       "evil",
                       7, "\\u202eevil");
        check_terminal("\xe2\x80\x8b", 3, "\\u200b");
        check_terminal("\xf3\xa0\x81\x81", 4, "\\ue0041"); /* a tag character */
        check_terminal("\xe3\x85\xa4", 3, "\\u3164");      /* a filler */
        check_terminal("gr\xc3\xbc\xc3\x9f", 6, "gr\xc3\xbc\xc3\x9f");
}

static void test_terminal_line(void)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(4096);

        check_eq_int(terminal_escape_line("a\nb\tc", 5, &b), 0);
        check_eq_bytes(buffer_bytes(&b), b.length, "a\\x0ab\\x09c");
}

int main(void)
{
        run(test_terminal);
        run(test_terminal_line);
        return 0;
}
