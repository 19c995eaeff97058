/* Lines: the same result for any division of the bytes, and a bound on each line. */
#include "rpc/lines.h"

#include <unistd.h>

#include "base/fd.h"
#include "tests/unit/test.h"

/* Feeds a text in pieces of this size: lines are put in brackets, too long ones become !. */
static const char *cut(const char *text, size_t piece, size_t most)
{
        static char result[4096];
        struct lines l;
        const char *line = NULL;
        size_t n = strlen(text), length = 0, used = 0;
        int r;

        lines_init(&l, most);
        result[0] = '\0';
        for (size_t at = 0; at < n; at += piece) {
                check_eq_int(lines_feed(&l, text + at, n - at < piece ? n - at : piece), 0);
                while ((r = lines_next(&l, &line, &length)) != 0)
                        used += (size_t)snprintf(result + used, sizeof(result) - used, "%s[%.*s]",
                                                 r < 0 ? "!" : "", (int)length, line);
        }
        if (lines_rest(&l, &line, &length))
                snprintf(result + used, sizeof(result) - used, "rest[%.*s]", (int)length, line);
        lines_done(&l);
        return result;
}

static void test_pieces(void)
{
        static const struct {
                const char *text, *result;
        } cases[] = {
                {"", ""},
                {"a\n", "[a]"},
                {"a\nbc\n", "[a][bc]"},
                {"a\r\nb\r\n", "[a][b]"},
                {"\n\n  \n\t\r\na\n\n", "[a]"},
                {"a\nb", "[a]rest[b]"},
                {"a\n  ", "[a]"},
                {"a\rb\n", "[a\rb]"},
                {"12345678\n", "[12345678]"},
                {"12345678\r\n", "[12345678]"},
                {"123456789\nb\n", "![12345678][b]"},
                {"123456789", "![12345678]"},
                {"1234567890123456789012345\nb\n123456789\r\n\nc",
                 "![12345678][b]![12345678]rest[c]"},
        };

        for (size_t piece = 1; piece < 40; piece++) {
                for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                        check_eq_str(cut(cases[i].text, piece, 8), cases[i].result);
        }
}

static void test_read(void)
{
        struct lines l;
        int fds[2];
        const char *line = NULL;
        size_t n = 0;

        lines_init(&l, 100);
        check_eq_int(pipe(fds), 0);
        check_eq_int(fd_set_nonblocking(fds[0], 1), 0);
        check_eq_int(lines_read(&l, fds[0]), -EAGAIN);
        check_eq_int(write(fds[1], "ab\nc", 4), 4);
        check_eq_int(lines_read(&l, fds[0]), 4);
        check_eq_int(lines_next(&l, &line, &n), 1);
        check_eq_bytes(line, n, "ab");
        check_eq_int(lines_next(&l, &line, &n), 0);
        close(fds[1]);
        check_eq_int(lines_read(&l, fds[0]), 0);
        check_eq_int(lines_rest(&l, &line, &n), 1);
        check_eq_bytes(line, n, "c");
        check_eq_int(lines_rest(&l, &line, &n), 0);
        close(fds[0]);
        lines_done(&l);
}

/* The largest line, then one byte more; memory never exceeds the bound and a read. */
static void test_bound(void)
{
        enum { MOST = 8 * 1024 * 1024 };
        static char piece[LINES_READ];
        struct lines l;
        const char *line = NULL;
        size_t n = 0;
        int too_long = 0;

        memset(piece, 'x', sizeof(piece));
        lines_init(&l, MOST);
        for (int i = 0; i < MOST / LINES_READ; i++) {
                check_eq_int(lines_feed(&l, piece, sizeof(piece)), 0);
                check_eq_int(lines_next(&l, &line, &n), 0);
        }
        check_eq_int(lines_feed(&l, "\n", 1), 0);
        check_eq_int(lines_next(&l, &line, &n), 1);
        check_eq_int(n, MOST);
        /* An endless line is reported once and uses no more memory. */
        for (int i = 0; i < 4 * MOST / LINES_READ; i++) {
                check_eq_int(lines_feed(&l, piece, sizeof(piece)), 0);
                while (lines_next(&l, &line, &n) != 0)
                        too_long++;
                check(l.buffer.allocated <= 2 * (size_t)MOST + 2 * LINES_READ);
        }
        check_eq_int(too_long, 1);
        check_eq_int(lines_feed(&l, "\nok\n", 4), 0);
        check_eq_int(lines_next(&l, &line, &n), 1);
        check_eq_bytes(line, n, "ok");
        lines_done(&l);
}

/* A line can be taken out of the buffer, and one that has begun can be skipped. */
static void test_take_and_skip(void)
{
        struct lines l;
        struct buffer taken;
        const char *line;
        size_t n;

        lines_init(&l, 100);
        check_eq_int(lines_feed(&l, "first\nsecond\nthi", 16), 0);
        check_eq_int(lines_next(&l, &line, &n), 1);
        check_eq_int(lines_begun(&l), 10);
        check_eq_int(lines_take(&l, n, &taken), 0);
        check_eq_bytes(buffer_bytes(&taken), taken.length, "first");
        check_eq_int(lines_next(&l, &line, &n), 1);
        check_eq_bytes(line, n, "second");
        check_eq_int(lines_next(&l, &line, &n), 0);
        check_eq_int(lines_begun(&l), 3);
        lines_skip(&l, &line, &n);
        check_eq_bytes(line, n, "thi");
        check_eq_int(lines_feed(&l, "rd\nfourth\n", 10), 0);
        check_eq_int(lines_next(&l, &line, &n), 1);
        check_eq_bytes(line, n, "fourth");
        check_eq_int(lines_next(&l, &line, &n), 0);
        buffer_done(&taken);
        lines_done(&l);
}

int main(void)
{
        run(test_pieces);
        run(test_read);
        run(test_bound);
        run(test_take_and_skip);
        return 0;
}
