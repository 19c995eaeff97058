/* Requested packages: how the list is split, what is refused, which lists are equal. */
#include "policy/package-set.h"

#include <string.h>

#include "base/cleanup.h"
#include "tests/unit/test.h"

/* The members of a list, with | between them. */
static void check_split(const char *list, const char *expected)
{
        char joined[256] = "";
        const char *word = NULL;
        size_t n = 0, used = 0;

        while (package_next(&list, &word, &n))
                used += (size_t)snprintf(joined + used, sizeof(joined) - used, "%s%.*s",
                                         used > 0 ? "|" : "", (int)n, word);
        check_eq_str(joined, expected);
}

static void test_split(void)
{
        check_split("pandas", "pandas");
        check_split("pandas,numpy", "pandas|numpy");
        check_split(" pandas , numpy ,", "pandas|numpy");
        check_split("pandas>=1,<2,numpy", "pandas>=1,<2|numpy");
        check_split("a[x,y]>=1, <2 ,b", "a[x,y]>=1, <2|b");
        check_split("a; python_version in \"3.9,x\",b", "a; python_version in \"3.9,x\"|b");
        check_split("a(>=1,2),b", "a(>=1,2)|b");
        check_split(",,", "");
        check_split("", "");
}

static void test_check(void)
{
        static const char *const good[] = {"six",
                                           "PyYAML>=6,<7",
                                           "ruamel.yaml~=0.18",
                                           "a[b,c]==1.*",
                                           "numpy ; python_version<'3.12'",
                                           "a,b"};
        static const char *const bad[] = {"--index-url=x",
                                          "-e .",
                                          "./folder",
                                          "/abs/six.whl",
                                          "six @ https://x/six.tar.gz",
                                          "git+https://x/y",
                                          "a b",
                                          "six>=1\n-r x",
                                          "caf\xc3\xa9",
                                          "six-",
                                          "a,-r x",
                                          "",
                                          ","};
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
                err = (struct error){};
                check_ok(package_check(good[i], &err));
        }
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                err = (struct error){};
                check(package_check(bad[i], &err) < 0);
                check(error_is_set(&err));
        }
}

static uint64_t key(const char *first, const char *second)
{
        struct package_set set = {.with = {first, second}, .n_with = second ? 2 : 1};
        return package_set_key(&set, "default-1");
}

static void test_key(void)
{
        struct package_set set = {.with = {"a"}, .n_with = 1};

        check(key("numpy,six", NULL) == key("six", "numpy"));
        check(key("Ruamel.YAML >= 1", NULL) == key("ruamel-yaml>=1", NULL));
        check(key("a", NULL) != key("b", NULL));
        check(key("a,a", NULL) != key("b,b", NULL));
        check(key("a==1.0", NULL) != key("a==1-0", NULL));
        check(package_set_key(&set, "default-1") != package_set_key(&set, "default-2"));
}

static void test_npm(void)
{
        static const char *const good[] = {"lodash",           "JSONStream",        "@google/genai",
                                           "a@^1.2 || >=3 <4", "a@next,@s/b@1.x,c", "~a",
                                           "a.b_c-d"};
        static const char *const bad[] = {
                "",        ",",           "@scope",       "@/a",
                "@a/",     "a/b",         "./a",          "../a",
                "/a",      "a b",         "a@",           "a@file:b",
                "a@npm:b", "a@http://b",  "a@../b",       "a@.b",
                "a@b.tgz", "a@b.TAR.GZ",  "--registry=",  "$(id)",
                "a;b",     "a\nb",        "node_modules", "git+https://a/b",
                "a@\"1\"", "caf\xc3\xa9", "a@1\\b",       ".a",
                "_a",      "@.s/a",       "@s/_a",        "a@1#b"};
        struct error err;
        char longest[216];

        for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
                err = (struct error){};
                check_ok(npm_check(good[i], &err));
        }
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                err = (struct error){};
                check(npm_check(bad[i], &err) < 0);
                check(error_is_set(&err));
        }
        memset(longest, 'a', sizeof(longest));
        longest[215] = '\0';
        check(npm_check(longest, &err) < 0);
        longest[214] = '\0';
        check_ok(npm_check(longest, &err));

        struct package_set set = {.npm = {"a,b@1"}, .n_npm = 1},
                           other = {.npm = {"b@1", "a"}, .n_npm = 2};
        struct package_set python = {.with = {"a"}, .n_with = 1}, npm = {.npm = {"a"}, .n_npm = 1};
        check(package_set_key(&set, "x") == package_set_key(&other, "x"));
        check(package_set_key(&python, "x") != package_set_key(&npm, "x"));
        check(!package_set_empty(&npm));
}

int main(void)
{
        run(test_npm);
        run(test_split);
        run(test_check);
        run(test_key);
        return 0;
}
