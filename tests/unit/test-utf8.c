/* UTF-8 in pieces: the result does not depend on where the pieces are cut. */
#include "base/utf8.h"

#include "tests/unit/test.h"

struct collected {
        char text[256];
        size_t n;
};

static int collect(void *data, const char *text, size_t n)
{
        struct collected *c = data;

        check(c->n + n < sizeof(c->text));
        memcpy(c->text + c->n, text, n);
        c->n += n;
        c->text[c->n] = '\0';
        return 0;
}

static void check_text(const char *bytes, const char *expected)
{
        size_t n = strlen(bytes);

        for (size_t first = 0; first <= n; first++) {
                for (size_t second = first; second <= n; second++) {
                        struct utf8_stream stream = {};
                        struct collected c = {};
                        check_eq_int(utf8_feed(&stream, bytes, first, collect, &c), 0);
                        check_eq_int(utf8_feed(&stream, bytes + first, second - first, collect, &c),
                                     0);
                        check_eq_int(utf8_feed(&stream, bytes + second, n - second, collect, &c),
                                     0);
                        check_eq_int(utf8_finish(&stream, collect, &c), 0);
                        check_eq_str(c.text, expected);
                }
        }
}

#define R "\xef\xbf\xbd"

static void test_feed(void)
{
        check_text("plain text, longer than eight", "plain text, longer than eight");
        check_text("aé€😀z", "aé€😀z");
        check_text("\xff", R);
        check_text("a\xc3z", "a" R "z");
        check_text("\xe2\x82", R);
        check_text("\xe2\x82z", R "z");
        check_text("\xf0\x9f\x98z", R "z");
        check_text("\xc0\x80", R R);
        check_text("\xed\xa0\x80", R R R);
        check_text("\xf4\x90\x80\x80", R R R R);
        check_text("\xe2\x82\xe2\x82\xac", R "€");
        check_text("\x80\xbf", R R);
}

static void test_cut_and_count(void)
{
        const char *text = "aé€😀";
        size_t n = strlen(text), left = 2;
        char half[16];

        check_eq_int(utf8_count(text, n), 4);
        check_eq_int(utf8_skip(text, n, 2), 3);
        check_eq_int(utf8_skip(text, n, 9), n);
        check_eq_int(utf8_skip_back(text, n, &left), 3);
        check_eq_int(left, 0);
        left = 6;
        check_eq_int(utf8_skip_back(text, n, &left), 0);
        check_eq_int(left, 2);
        for (size_t cut = 0; cut <= n; cut++) {
                memcpy(half, text, cut);
                half[cut] = '\0';
                utf8_trim(half);
                check(cut - strlen(half) < 4);
                check_text(half, half);
                /* Both ways to cut agree. */
                check_eq_int(utf8_cut(text, n, cut), strlen(half));
        }
}

int main(void)
{
        run(test_feed);
        run(test_cut_and_count);
        return 0;
}
