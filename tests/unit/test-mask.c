/* Secrets in text: known values, and text that looks like a secret. */
#include "base/mask.h"

#include "tests/unit/test.h"

static const char *masked(const char *text)
{
        static char copy[1024];

        snprintf(copy, sizeof(copy), "%s", text);
        mask_text(copy);
        return copy;
}

static void test_literal(void)
{
        check_eq_str(masked("a hunter22 b hunter22"), "a hunter22 b hunter22");
        mask_add("hunter22");
        mask_add("hunter22and more");
        mask_add("short");
        check_eq_str(masked("a hunter22 b(hunter22)"), "a *** b(***)");
        check_eq_str(masked("xhunter22and more"), "x***");
        check_eq_str(masked("short"), "short");
        mask_drop("hunter22and more");
        mask_drop("never added");
        mask_drop(NULL);
        check_eq_str(masked("xhunter22and more"), "x***and more");
}

static void test_looks(void)
{
        check_eq_str(masked("got ghp_abcdefghijklmnopqrstuvwxyz0123 there"), "got *** there");
        check_eq_str(masked("Authorization: Bearer abcdef0123456789xyz, then"),
                     "Authorization: Bearer ***, then");
        check_eq_str(masked("bearer of good news"), "bearer of good news");
        check_eq_str(masked("API_KEY=abcdef123 x"), "API_KEY=*** x");
        check_eq_str(masked("{\"password\": \"correcthorse\"}"), "{\"password\": \"***\"}");
        check_eq_str(masked("--token=abcdefgh"), "--token=***");
        check_eq_str(masked("X-Api-Key: abcdefgh"), "X-Api-Key: ***");
        check_eq_str(masked("githubToken=abcdefgh"), "githubToken=***");
}

/* The controls: ordinary text is unchanged. */
static void test_ordinary(void)
{
        static const char *const texts[] = {
                "server library: ready, 12 tools",
                "config.json: line 4: limits.memory must be from 64M to 64T",
                "keyboard=qwertyuiop monkey: bananas",
                "task-list sk-ip",
                "error: division by zero (line 3)",
                "session default: cell 3: ok in 12 ms",
                "TOKEN= x",
                "unexpected token: something",
                "unknown key: profiles",
        };

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                check_eq_str(masked(texts[i]), texts[i]);
}

static void test_names_and_values(void)
{
        check(mask_name_is_secret("GITHUB_TOKEN"));
        check(mask_name_is_secret("--api-key"));
        check(mask_name_is_secret("dbPassword"));
        check(!mask_name_is_secret("MONKEY"));
        check(!mask_name_is_secret("KEYBOARD_LAYOUT"));
        check(!mask_name_is_secret("LOG_LEVEL"));
        check(!mask_name_is_secret(""));
        check(mask_value_is_secret("AKIAIOSFODNN7EXAMPLE"));
        check(mask_value_is_secret("9f86d081884c7d659a2feaa0c55ad015"));
        check(!mask_value_is_secret("/usr/lib/node_modules/server"));
        check(!mask_value_is_secret("production"));
        check(!mask_value_is_secret("@modelcontextprotocol/server-filesystem"));
}

static void test_bounds(void)
{
        char text[64];

        for (int i = 0; i < MASK_SECRETS_MAX + 10; i++) {
                snprintf(text, sizeof(text), "secret-number-%d.", i);
                mask_add(text);
        }
        check_eq_str(masked("secret-number-7."), "***");
        check_eq_str(masked("secret-number-1033."), "secret-number-1033.");
        check_eq_str(masked(""), "");
}

int main(void)
{
        run(test_literal);
        run(test_looks);
        run(test_ordinary);
        run(test_names_and_values);
        run(test_bounds);
        return 0;
}
