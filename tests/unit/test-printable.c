/* Text of others: what a terminal and a log get of it. */
#include "base/printable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "tests/unit/test.h"

static void check_line(const char *text, const char *expected)
{
        char line[256];

        check_eq_int(printable_escape(line, sizeof(line), text), strlen(expected));
        check_eq_str(line, expected);
        check_eq_int(printable_escape(line, 4, text), strlen(line));
        check(strlen(line) < 4);

        char *printed = NULL;
        size_t n = 0;
        FILE *to = open_memstream(&printed, &n);
        printable_print(to, text);
        fclose(to);
        check_eq_str(printed, expected);
        free(printed);
}

static void test_line(void)
{
        check_line("plain é€😀", "plain é€😀");
        check_line("\x1b]0;t\x07\r\n\t\x7f", "\\x1b]0;t\\x07\\x0d\\x0a\\x09\\x7f");
        check_line("\xc2\x9b"
                   "2J",
                   "\\xc2\\x9b2J"); /* CSI */
        check_line("\x9b"
                   "2J",
                   "\\x9b2J"); /* of a terminal without UTF-8 */
        check_line("a\xe2\x80\xae"
                   "b\xe2\x81\xa6\xe2\x80\x8b\xef\xbb\xbf",
                   "a\\u202eb\\u2066\\u200b\\ufeff");
        check_line("\xf3\xa0\x81\x81\xe3\x85\xa4", "\\ue0041\\u3164");
        check_line("\xff\xe2\x80", "\xff\xe2\\x80");
}

static void test_json(void)
{
        static const char json[] = "{\"a\": \"\xc2\x9b\xe2\x80\xae\xf3\xa0\x81\x81\x7f é\"}\n";
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(256), small = BUFFER_INIT(16);

        check_eq_int(printable_json(&b, json, strlen(json)), 0);
        check_eq_bytes(buffer_bytes(&b), b.length,
                       "{\"a\": \"\\u009b\\u202e\\udb40\\udc41\\u007f é\"}\n");
        check_eq_int(printable_json(&small, json, strlen(json)), -EMSGSIZE);

        /* Blanks and selectors that cannot be told from others. */
        static const char blank[] =
                "\"a\xc2\xa0\xe2\x80\x89\xe2\xa0\x80\xef\xb8\x8f \xe3\x80\x80\"";
        _cleanup_buffer_ struct buffer c = BUFFER_INIT(256);
        check_eq_int(printable_json(&c, blank, strlen(blank)), 0);
        check_eq_bytes(buffer_bytes(&c), c.length,
                       "\"a\\u00a0\\u2009\\u2800\\ufe0f \xe3\x80\x80\"");
}

int main(void)
{
        run(test_line);
        run(test_json);
        return 0;
}
