#include <stdio.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "policy/config/add.h"
#include "policy/config/config.h"
#include "policy/config/rule-test-keys.h"
#include "tests/unit/test.h"

DEFINE_CLEANUP(struct config *, config_free)
#define _cleanup_config_ _cleanup_(cleanup_config_free)

#define FILES                                                                                      \
        "\"mcpServers\":{\"files\":{\"command\":\"true\"},\"files.old\":{\"command\":\"true\"}}"
#define RULES                                                                                      \
        "\"rules\":[{\"allow\":\"files.write\",\"when\":{\"/path\":{\"prefix\":\"/tmp/\"}}},"      \
        "{\"ask\":\"files.write\",\"why\":\"elsewhere\"},{\"deny\":\"files.delete_*\"}]"

static bool no_url(const char *url, size_t n, struct rules_url *ret)
{
        return false;
}

/* 0, or negative errno and the error. */
static int read_config(const char *text, rules_url_fn *url, struct config **ret, struct error *err)
{
        struct config *config = config_new();

        check(config);
        *ret = config;
        int r = config_add(config, "a.json", text, strlen(text), err);
        if (r >= 0)
                r = config_finish(config, err);
        return r < 0 ? r : config_check_rule_tests(config, url, err);
}

static void good(const char *text)
{
        _cleanup_config_ struct config *config = NULL;
        struct error err = {};

        check_ok(read_config(text, no_url, &config, &err));
}

static void refused(const char *text, const char *expected)
{
        _cleanup_config_ struct config *config = NULL;
        struct error err = {};

        check_eq_int(read_config(text, no_url, &config, &err), -EINVAL);
        check_eq_str(err.text, expected);
}

static void passing_tests(void)
{
        good("{" FILES "," RULES
             ",\"rule_tests\":[{\"call\":\"files.write\",\"arguments\":{\"path\":\"/tmp/x\"},\"expect\":\"allow\"},"
             "{\"call\":\"files.write\",\"expect\":\"ask\"},{\"call\":\"files.delete_all\",\"expect\":\"deny\"},"
             "{\"call\":\"files.read\",\"expect\":\"allow\"}]}");
}

static void failed_test_refuses_the_config(void)
{
        refused("{" FILES "," RULES
                ",\n\"rule_tests\":[{\"call\":\"files.read\",\"expect\":\"allow\"},\n"
                "{\"call\":\"files.write\",\"expect\":\"allow\"}]}",
                "a.json: line 3: rule_tests: entry 2: files.write: expected allow, found ask (a.json line 1: elsewhere)");
        refused("{" FILES ",\"rule_tests\":[{\"call\":\"files.write\",\"expect\":\"ask\"}]}",
                "a.json: line 1: rule_tests: entry 1: files.write: expected ask, found allow (no rule matches)");
}

/* Those of the top level mean its rules alone: a profile may say something else. */
static void profiles(void)
{
        static const char text[] =
                "{" FILES "," RULES
                ",\"rule_tests\":[{\"call\":\"files.write\",\"expect\":\"ask\"}],"
                "\"profiles\":{\"free\":{\"rules\":[{\"allow\":\"files.write\"}],"
                "\"rule_tests\":[{\"call\":\"files.write\",\"expect\":\"%s\"},"
                "{\"call\":\"files.delete_x\",\"expect\":\"deny\"}]}}}";
        char whole[1024];

        snprintf(whole, sizeof(whole), text, "allow");
        good(whole);
        snprintf(whole, sizeof(whole), text, "ask");
        refused(whole,
                "a.json: line 1: rule_tests: entry 1: files.write: expected ask, found allow (a.json line 1)");
}

static void malformed_tests(void)
{
        refused("{\"rule_tests\":{}}",
                "a.json: line 1: rule_tests must be an array of at most 512 entries: [{\"call\": \"files.delete_file\", \"expect\": \"deny\"}]");
        refused("{\"rule_tests\":[{\"call\":\"files\",\"expect\":\"deny\"}]}",
                "a.json: line 1: rule_tests: entry 1: \"files\" must be a server and a tool: files.write_file");
        refused("{\"rule_tests\":[{\"call\":\"a.b\",\"expekt\":\"deny\"}]}",
                "a.json: line 1: rule_tests: entry 1: unknown key \"expekt\"; did you mean \"expect\"?");
        refused("{\"rule_tests\":[{\"call\":\"a.b\",\"expect\":\"maybe\"}]}",
                "a.json: line 1: rule_tests: entry 1: expect must be \"allow\", \"ask\" or \"deny\"");
        refused("{\"rule_tests\":[{\"call\":\"a.b\",\"arguments\":[],\"expect\":\"deny\"}]}",
                "a.json: line 1: rule_tests: entry 1: the arguments must be an object");
}

/* Only the broker has a parser of URLs. */
static void tests_of_hosts(void)
{
        static const char text[] =
                "{" FILES
                ",\"rules\":[{\"deny\":\"files.get\",\"when\":{\"/url\":{\"host\":\"a.example\"}}}],"
                "\"rule_tests\":[{\"call\":\"files.get\",\"arguments\":{\"url\":\"http://b.example\"},\"expect\":\"allow\"}]}";
        _cleanup_config_ struct config *config = NULL;
        struct error err = {};

        check_ok(read_config(text, NULL, &config, &err));
        refused(text,
                "a.json: line 1: rule_tests: entry 1: files.get: expected allow, found deny (a.json line 1)");
}

int main(void)
{
        run(passing_tests);
        run(failed_test_refuses_the_config);
        run(profiles);
        run(malformed_tests);
        run(tests_of_hosts);
        return 0;
}
