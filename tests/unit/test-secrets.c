/* Which parts of a server's entry are treated as secrets. */
#include "supervisor/cli/config/secrets.h"

#include "tests/unit/test.h"

static void test_references(void)
{
        check(secret_is_reference("${A}"));
        check(secret_is_reference("${A:-b}${C}"));
        check(!secret_is_reference(""));
        check(!secret_is_reference("${A} "));
        check(!secret_is_reference("x${A}"));
        check(!secret_is_reference("${A"));
        check(!secret_is_reference("$A"));
}

static void test_plain_settings(void)
{
        static const char *const plain[] = {
                "",          "true",  "debug", "8080",  "0.5",
                "/srv/data", "~/x/y", "./x",   "en-US", "http://localhost:3000/sse",
                "${X}"};
        static const char *const secret[] = {"hunter2",
                                             "9f8a-77",
                                             "123456789",
                                             "a b",
                                             "p@ss",
                                             "https://u:p@h/",
                                             "https://h/?k=v",
                                             "abcdefghijklmnopq",
                                             "/x/ghp_a1B2c3D4e5F6a1B2c3D4e5F6a1B2c3D4e5F6"};

        for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
                check(secret_is_plain("SETTING", plain[i]));
        for (size_t i = 0; i < sizeof(secret) / sizeof(secret[0]); i++)
                check(!secret_is_plain("SETTING", secret[i]));
        check(!secret_is_plain("API_TOKEN", "true"));
        check(secret_is_plain("API_TOKEN", "${T}"));
        check(secret_is_plain("API_TOKEN", ""));
}

static bool argument(const char *after, const char *text, unsigned kept)
{
        unsigned keep = 99;

        bool secret = secret_in_argument(after, text, &keep);
        if (secret)
                check_eq_int(keep, kept);
        return secret;
}

static void test_arguments(void)
{
        check(argument("--token", "x", 0));
        check(!argument("--token", "--verbose", 0));
        check(!argument("--token", "${T}", 0));
        check(argument(NULL, "--api-key=x", 10));
        check(!argument(NULL, "--api-key=${K}", 0));
        check(!argument("--token=x", "y", 0));
        check(argument("-e", "DB_PASSWORD=x", 12));
        check(!argument("-e", "DB_HOST=x", 0));
        check(argument(NULL, "ghp_a1B2c3D4e5F6a1B2c3D4e5F6a1B2c3D4e5F6", 0));
        check(!argument(NULL, "@modelcontextprotocol/server-filesystem", 0));
        check(!argument("token", "x", 0));
}

static bool url(const char *text, unsigned kept, unsigned left)
{
        unsigned keep = 99, rest = 99;

        bool secret = secret_in_url(text, &keep, &rest);
        if (secret) {
                check_eq_int(keep, kept);
                check_eq_int(rest, left);
        }
        return secret;
}

static void test_urls(void)
{
        check(!url("https://h.example/mcp", 0, 0));
        check(!url("https://h/mcp?", 0, 0));
        check(!url("no address", 0, 0));
        check(!url("https://h/@scope/x", 0, 0));
        check(url("https://u:p@h/x", 8, 4));
        check(url("https://h/x?key=1", 12, 0));
        check(url("https://u@h/x?key=1", 8, 0)); /* all of it: both are secret */
        check(url("https://h/x#t", 12, 0));
        check(url("https://h/ghp_a1B2c3D4e5F6a1B2c3D4e5F6a1B2c3D4e5F6/mcp", 10, 0));
}

int main(void)
{
        run(test_references);
        run(test_plain_settings);
        run(test_arguments);
        run(test_urls);
        return 0;
}
