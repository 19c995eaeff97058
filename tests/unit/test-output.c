/* UTF-8 as it arrives, capture and cut. */
#include "supervisor/session/cell/output.h"

#include "tests/unit/test.h"

static int collect(void *data, const char *text, size_t n)
{
        return buffer_append(data, text, n);
}

/* Feeds bytes in pieces of every size up to their length: the text must not depend on it. */
static void check_text(const char *bytes, size_t n, const char *expected)
{
        for (size_t piece = 1; piece <= n; piece++) {
                struct utf8_stream stream = {};
                _cleanup_buffer_ struct buffer b = BUFFER_INIT(4096);

                for (size_t at = 0; at < n; at += piece)
                        check_eq_int(utf8_feed(&stream, bytes + at, at + piece < n ? piece : n - at,
                                               collect, &b),
                                     0);
                check_eq_int(utf8_finish(&stream, collect, &b), 0);
                check_eq_bytes(buffer_bytes(&b), b.length, expected);
        }
}

#define BAD "\xef\xbf\xbd"

static void test_utf8(void)
{
        check_text("plain text of some length", 25, "plain text of some length");
        check_text("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x90\x8d", 15,
                   "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x90\x8d");
        check_text("a\xff\x62", 3, "a" BAD "b");
        check_text("\xc0\xaf", 2, BAD BAD);         /* overlong */
        check_text("\xed\xa0\x80", 3, BAD BAD BAD); /* a surrogate */
        check_text("\xf4\x90\x80\x80", 4, BAD BAD BAD BAD);
        check_text("\xe2\x82x", 3, BAD "x"); /* one for the maximal part */
        check_text("\xf0\x9f\x90", 3, BAD);  /* half a character at the end */
        check_text("12345678\x80"
                   "12345678",
                   17, "12345678" BAD "12345678");
}

static void test_trim(void)
{
        char text[] = "ab\xe2\x82", whole[] = "ab\xe2\x82\xac";

        utf8_trim(text);
        check_eq_str(text, "ab");
        utf8_trim(whole);
        check_eq_str(whole, "ab\xe2\x82\xac");
}

static void render(const struct capture *c, size_t most, struct buffer *to, bool *cut)
{
        buffer_consume(to, to->length);
        check_eq_int(capture_render(c, most, to, cut), 0);
        check_eq_int(buffer_append(to, "", 1), 0);
}

static void test_capture_whole(void)
{
        struct capture c;
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(4096);
        bool cut;

        capture_init(&c);
        check_eq_int(capture_append(&c, "caf\xc3", 4), 0);
        check_eq_int(capture_append(&c, "\xa9\n", 2), 0);
        check_eq_int(capture_finish(&c), 0);
        check_eq_int(c.bytes, 6);
        check_eq_int(c.characters, 5);
        render(&c, 5, &b, &cut);
        check(!cut);
        check_eq_str(buffer_bytes(&b), "caf\xc3\xa9\n");
        capture_done(&c);
}

static void test_capture_cut_at_lines(void)
{
        struct capture c;
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(1024 * 1024);
        bool cut;
        char line[32];

        capture_init(&c);
        for (int i = 0; i < 1000; i++) {
                snprintf(line, sizeof(line), "line %d\n", i);
                capture_append(&c, line, strlen(line));
        }
        render(&c, 400, &b, &cut);
        check(cut);
        check(b.length < 400 + 120);
        check_eq_int(strncmp(buffer_bytes(&b), "line 0\nline 1\n", 14), 0);
        check_has(buffer_bytes(&b), "\n[... ");
        check_has(buffer_bytes(&b), " of 8,890 characters cut here");
        check_has(buffer_bytes(&b), "...]\nline 9");
        check_has(buffer_bytes(&b), "line 999\n");
        capture_done(&c);
}

/* A long line is divided by the notice, which is a separate line; characters are counted, not
 * bytes. */
static void test_capture_cut_in_line(void)
{
        struct capture c;
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(1024 * 1024);
        bool cut;

        capture_init(&c);
        for (int i = 0; i < 1000; i++)
                capture_append(&c, "\xe2\x82\xac", 3);
        render(&c, 100, &b, &cut);
        check(cut);
        check_has(buffer_bytes(&b), "\xe2\x82\xac\n[... 900 of 1,000 characters cut here");
        check_has(buffer_bytes(&b), "...]\n\xe2\x82\xac");
        check_eq_int(
                utf8_count(buffer_bytes(&b), b.length - 1),
                100 + (int)strlen(
                              "\n[... 900 of 1,000 characters cut here; print less, or call with a larger max_output ...]\n"));
        capture_done(&c);
}

/* 64 MiB in: both ends are kept, memory is bounded, everything is counted. */
static void test_capture_bounded(void)
{
        enum { PIECE = 1000 * 1000, PIECES = 64 };
        struct capture c;
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(32 * 1024 * 1024);
        bool cut;
        char *piece = malloc(PIECE);

        capture_init(&c);
        memset(piece, 'x', PIECE);
        check_eq_int(capture_append(&c, "BEGIN", 5), 0);
        for (int i = 0; i < PIECES; i++)
                check_eq_int(capture_append(&c, piece, PIECE), 0);
        check_eq_int(capture_append(&c, "END", 3), 0);
        check_eq_int(c.bytes, PIECE * PIECES + 8);
        check_eq_int(c.head.length, CAPTURE_KEEP);
        check(c.tail.length >= CAPTURE_KEEP && c.tail.length <= 2 * CAPTURE_KEEP);
        check(c.tail.allocated <= 2 * CAPTURE_KEEP);
        render(&c, OUTPUT_CHARACTERS_MAX, &b, &cut);
        check(cut);
        check_eq_int(strncmp(buffer_bytes(&b), "BEGINx", 6), 0);
        check_eq_str(buffer_bytes(&b) + b.length - 5, "xEND");
        check_has(buffer_bytes(&b), "of 64,000,008 characters");
        free(piece);
        capture_done(&c);
}

/* Squeezed: nothing grows, both ends are kept, and the reader gets a notice. */
static void test_squeezed(void)
{
        enum { PIECE = 60 * 1000 };
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(1024 * 1024);
        char piece[PIECE];
        struct capture c;
        bool cut;

        for (int with_tail = 0; with_tail <= 1; with_tail++) {
                capture_init(&c);
                memset(piece, 'x', sizeof(piece));
                capture_append(&c, "BEGIN", 5);
                check(capture_growth(&c, PIECE) > 0);
                if (with_tail)
                        c.head_most = 5;
                capture_append(&c, piece, with_tail ? PIECE : 100);
                capture_squeeze(&c);
                size_t before = capture_bytes(&c);
                for (int i = 0; i < 100; i++)
                        capture_append(&c, piece, PIECE);
                capture_append(&c, "END", 3);
                capture_squeeze(&c);
                check_eq_int(capture_growth(&c, PIECE), 0);
                check(capture_bytes(&c) <= before + 4 * CAPTURE_LEAST);
                render(&c, OUTPUT_CHARACTERS_MAX, &b, &cut);
                check(cut);
                check_eq_int(strncmp(buffer_bytes(&b), "BEGIN", 5), 0);
                check_eq_str(buffer_bytes(&b) + b.length - 5, "xEND");
                check_has(buffer_bytes(&b), "characters cut here");
                check(b.length < 100 * 1000);
                capture_done(&c);
        }
}

/* A character across the boundary of head and tail stays whole. */
static void test_capture_border(void)
{
        struct capture c;
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(64 * 1024 * 1024);
        char *piece = malloc(CAPTURE_KEEP);
        bool cut;

        capture_init(&c);
        memset(piece, 'x', CAPTURE_KEEP);
        capture_append(&c, piece, CAPTURE_KEEP - 1);
        capture_append(&c, "\xe2\x82\xac-end", 7);
        check_eq_int(c.head.length, CAPTURE_KEEP - 1);
        render(&c, 10, &b, &cut);
        check_has(buffer_bytes(&b), "...]\n\xe2\x82\xac-end");
        free(piece);
        capture_done(&c);
}

static void check_collapsed(const char *text, const char *expected)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(1024);

        check_eq_int(output_collapse(text, strlen(text), &b), 0);
        check_eq_int((int)b.length, (int)strlen(expected));
        check(b.length == 0 || memcmp(buffer_bytes(&b), expected, b.length) == 0);
}

static void test_returns(void)
{
        check_collapsed("", "");
        check_collapsed("plain\n", "plain\n");
        check_collapsed("windows\r\nlines\r\n", "windows\r\nlines\r\n");
        check_collapsed("10%\r20%\r30%\n", "30%\n");
        check_collapsed("10%\r20%", "20%");
        check_collapsed("10%\r", "10%");
        check_collapsed("\r10%\r\n", "10%\r\n");
        check_collapsed("loading...\rdone\n", "doneing...\n");
        check_collapsed("loading...\r          \rdone\n", "done\n");
        check_collapsed("\u00e4\u00f6\u00fc\rxy\n", "xy\u00fc\n");
        check_collapsed("\r\r\r", "");
        check_collapsed("a\n\r\rb\rc\nd", "a\nc\nd");
        /* As tqdm prints it to its standard error. */
        check_collapsed("\r  0%|          | 0/3 [00:00<?, ?it/s]"
                        "\r 33%|\u2588\u2588\u2588\u258e      | 1/3 [00:00<00:00,  9.99it/s]"
                        "\r100%|\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588| 3/3 "
                        "[00:00<00:00, 10.00it/s]\n",
                        "100%|\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588| 3/3 "
                        "[00:00<00:00, 10.00it/s]\n");
}

/* However the bytes come, and with more of them than are kept: what is left is short, and the text is as before. */
static void test_returns_in_captures(void)
{
        struct capture c;
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(64 * 1024 * 1024);
        bool cut = true;
        char line[32];

        capture_init(&c);
        for (int i = 0; i <= 100; i++) {
                int n = snprintf(line, sizeof(line), "\r%3d%% done", i);
                for (int at = 0; at < n; at++)
                        check_eq_int(capture_append(&c, line + at, 1), 0);
        }
        check_eq_int(capture_render_shown(&c, (struct capture_mark){}, 20, &b, &cut), 0);
        check_eq_int(cut, false);
        check_eq_int((int)b.length, 9);
        check(memcmp(buffer_bytes(&b), "100% done", 9) == 0);
        buffer_consume(&b, b.length);
        check_eq_int(capture_render(&c, 2000, &b, &cut), 0);
        check_eq_int((int)b.length, 101 * 10);
        capture_done(&c);

        for (int i = 0; i < 3 * 1024; i++) {
                char many[16 * 1024];
                memset(many, 'x', sizeof(many));
                many[0] = '\r';
                check_eq_int(capture_append(&c, many, sizeof(many)), 0);
        }
        buffer_consume(&b, b.length);
        check_eq_int(capture_render_shown(&c, (struct capture_mark){}, 100 * 1000, &b, &cut), 0);
        check_eq_int(cut, true);
        check(b.length < 40 * 1024);
        capture_done(&c);
}

/* Text that was dropped is not rendered again, and marks from before it stay valid. */
static void test_cleared(void)
{
        struct capture c;
        bool cut;

        capture_init(&c);
        check_eq_int(capture_append(&c, "\xc3\xa9 old\n", 7), 0);
        struct capture_mark before = capture_end(&c);
        check_eq_int(capture_append(&c, "more \xe2\x82", 7), 0); /* half a character */
        capture_clear(&c);
        check_eq_int((int)c.characters, 0);
        check_eq_int(capture_append(&c, "new\n", 4), 0);
        struct capture_mark after = capture_end(&c);
        check_eq_int(capture_append(&c, "end\n", 4), 0);
        const struct {
                struct capture_mark from;
                const char *text;
        } rows[] = {{{}, "new\nend\n"}, {before, "new\nend\n"}, {after, "end\n"}};
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_buffer_ struct buffer b = BUFFER_INIT(1024);
                check_eq_int(capture_render_shown(&c, rows[i].from, 100, &b, &cut), 0);
                check_eq_int(cut, false);
                check_eq_bytes(buffer_bytes(&b), b.length, rows[i].text);
        }
        capture_done(&c);
}

static void test_cut_text(void)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(4096);
        bool cut;

        check_eq_int(output_cut("short", 5, 5, &b, &cut), 0);
        check(!cut);
        check_eq_bytes(buffer_bytes(&b), b.length, "short");
        buffer_consume(&b, b.length);
        check_eq_int(output_cut("0123456789", 10, 4, &b, &cut), 0);
        check(cut);
        check_eq_int(strncmp(buffer_bytes(&b), "01\n[... 6 of 10 ", 16), 0);
        check_eq_int(strncmp(buffer_bytes(&b) + b.length - 3, "\n89", 3), 0);
}

int main(void)
{
        run(test_utf8);
        run(test_trim);
        run(test_capture_whole);
        run(test_capture_cut_at_lines);
        run(test_capture_cut_in_line);
        run(test_capture_bounded);
        run(test_capture_border);
        run(test_returns);
        run(test_returns_in_captures);
        run(test_squeezed);
        run(test_cleared);
        run(test_cut_text);
        return 0;
}
