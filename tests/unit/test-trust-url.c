#include "base/cleanup.h"
#include "supervisor/trust/url.h"
#include "tests/unit/test.h"

static void test_urls_with_one_reading(void)
{
        static const struct {
                const char *url, *host;
                int port;
        } rows[] = {
                {"https://a.example", "a.example", 443},
                {"http://a.example/x?y#z", "a.example", 80},
                {"HTTPS://A.example:8443/", "A.example", 8443},
                {"https://[::1]:1/", "[::1]", 1},
                {"https://a.example/?q=http://b@c", "a.example", 443},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct rules_url url = {};
                if (!trust_read_url(rows[i].url, strlen(rows[i].url), &url))
                        test_fail_("%s was refused", rows[i].url);
                check_eq_str(url.host, rows[i].host);
                check_eq_int(url.port, rows[i].port);
        }
}

static void test_other_urls(void)
{
        static const char *const rows[] = {
                "",
                "a.example",
                "//a.example",
                "https:a.example",
                "https:/a.example",
                "https:///a.example",
                "ftp://a.example",
                "file:///etc/passwd",
                "https://u@a.example",
                "https://:p@a.example",
                "https://a.example@b.example",
                "https://a.example\\@b.example",
                "https:\\\\a.example",
                " https://a.example",
                "https://a.example ",
                "https://a.example\n",
                "https://a\tb.example",
                "https://\xd0\xb0.example",
                "https://a.example:99999",
                "https://a.example:x",
                "https://",
                "https://?x",
                "javascript://a.example",
                "x://https://a.example",
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct rules_url url = {};
                if (trust_read_url(rows[i], strlen(rows[i]), &url))
                        test_fail_("%s was read as %s", rows[i], url.host);
        }
}

int main(void)
{
        run(test_urls_with_one_reading);
        run(test_other_urls);
        return 0;
}
