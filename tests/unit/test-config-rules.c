#include "policy/config/config.h"
#include "tests/unit/test.h"

static bool allowed(char **allow, char **deny, const char *server, const char *tool)
{
        struct config_tool_rules rules = {allow, deny};

        return config_tool_allowed(&rules, server, tool);
}

#define LIST(...) ((char **)(const char *const[]){__VA_ARGS__, NULL})
#define NOTHING   ((char **)(const char *const[]){NULL})

static void test_everything_without_rules(void)
{
        check(allowed(NULL, NULL, "s", "t"));
        check(allowed(NULL, NULL, NULL, "t"));
        check(allowed(NULL, NOTHING, NULL, "t"));
        check(!allowed(NOTHING, NULL, NULL, "t"));
}

static void test_deny_wins(void)
{
        check(allowed(LIST("get_*"), NULL, NULL, "get_x"));
        check(!allowed(LIST("get_*"), NULL, NULL, "put_x"));
        check(!allowed(LIST("get_*"), LIST("get_x"), NULL, "get_x"));
        check(allowed(LIST("get_*"), LIST("get_x"), NULL, "get_xy"));
        check(!allowed(NULL, LIST("*delete*"), NULL, "bulk_delete_all"));
        check(allowed(NULL, LIST("*delete*"), NULL, "bulk_remove"));
}

static void test_servers_before_the_dot(void)
{
        check(allowed(LIST("git.*"), NULL, "git", "log"));
        check(!allowed(LIST("git.*"), NULL, "hub", "log"));
        check(allowed(LIST("log"), NULL, "hub", "log"));
        check(!allowed(NULL, LIST("git.push"), "git", "push"));
        check(allowed(NULL, LIST("git.push"), "hub", "push"));
        check(!allowed(LIST("git.log"), NULL, NULL, "log"));
        check(allowed(LIST("a.b"), NULL, NULL, "a.b"));
}

static void test_patterns(void)
{
        check(allowed(LIST("*"), NULL, NULL, ""));
        check(allowed(LIST("a*b*c"), NULL, NULL, "abbxbc"));
        check(!allowed(LIST("a*b*c"), NULL, NULL, "abbxb"));
        check(allowed(LIST("**x"), NULL, NULL, "x"));
        check(!allowed(LIST("x"), NULL, NULL, "X"));
        check(!allowed(LIST("x"), NULL, NULL, "xx"));
        check(!allowed(LIST("?"), NULL, NULL, "x"));
        check(allowed(LIST("*a*a*a*a*a*a*a*a*b"), NULL, NULL,
                      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"));
        check(!allowed(LIST("*a*a*a*a*a*a*a*a*b"), NULL, NULL,
                       "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

int main(void)
{
        run(test_everything_without_rules);
        run(test_deny_wins);
        run(test_servers_before_the_dot);
        run(test_patterns);
        return 0;
}
