/* Entries of "rule_tests" are kept as texts with their places, as rules are. */
#include "policy/config/rule-test-keys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "policy/config/rule-keys.h"

enum { FAILURE_SIZE = 1024 };

static int make_test(struct config_reading *r, yyjson_val *name, yyjson_val *value, size_t i,
                     char **ret)
{
        struct error why = {};
        yyjson_val *at;

        return rule_test_check(value, &at, &why) < 0
                       ? config_mistake(r, at, "rule_tests: entry %zu: %s", i, why.text)
                       : config_keep_rule(r, "test", value, i, ret);
}

int config_read_rule_tests(struct config_reading *r, const struct config_key *key,
                           yyjson_val *value)
{
        if (!yyjson_is_arr(value) || yyjson_arr_size(value) > key->most)
                return config_mistake(
                        r, value,
                        "rule_tests must be an array of at most %d entries: [{\"call\": \"files.delete_file\", \"expect\": \"deny\"}]",
                        RULE_TESTS_MAX);
        return config_read_items(r, value, make_test, &r->profile->rule_tests);
}

struct run {
        const struct rules_server *servers;
        size_t n_servers;
        rules_url_fn *url;
        void (*told)(void *data, const struct rule_test *test, const struct rules_decision *found,
                     bool passed);
        void *data;
};

/* own: run those of the profile, otherwise those of the top level. */
static int run_texts(const struct run *run, char *const *texts, bool own, const struct rules *rules,
                     struct error *err)
{
        for (; texts && *texts; texts++) {
                _cleanup_json_ yyjson_doc *doc = NULL;
                struct rules_decision found;
                struct rule_test test;
                int r = json_parse(*texts, strlen(*texts), &doc, err);
                if (r >= 0)
                        r = rule_test_read(yyjson_doc_get_root(doc), run->servers, run->n_servers,
                                           &test, err);
                if (r < 0)
                        return r;
                if (test.is_own != own)
                        continue;
                bool passed = rule_test_run(&test, rules, run->url, &found);
                run->told(run->data, &test, &found, passed || (found.fault && !run->url));
        }
        return 0;
}

int config_run_rule_tests(const struct config *config, rules_url_fn *url,
                          void (*told)(void *data, const struct rule_test *test,
                                       const struct rules_decision *found, bool passed),
                          void *data, struct error *err)
{
        struct rules_server servers[CONFIG_SERVERS_MAX];
        const struct run run = {servers, config_rules_servers(config, servers), url, told, data};
        struct rules *top = NULL;
        int r = 0;

        if (config->top.rule_tests && config->top.rules)
                r = rules_new(config->top.rules, servers, run.n_servers, &top, err);
        if (r >= 0)
                r = run_texts(&run, config->top.rule_tests, false, top, err);
        rules_free(top);
        for (size_t i = 0; i < config->n_profiles && r >= 0; i++)
                r = run_texts(&run, config->profiles[i].rule_tests, true,
                              config->profiles[i].compiled_rules, err);
        return r;
}

struct check {
        struct config *config;
        struct error *err;
        int r;
};

static void check_test(void *data, const struct rule_test *test, const struct rules_decision *found,
                       bool passed)
{
        struct check *check = data;
        char text[FAILURE_SIZE], whole[FAILURE_SIZE + 512];

        if (passed || check->r < 0)
                return;
        rule_test_tell(test, found, text, sizeof(text));
        snprintf(whole, sizeof(whole), "%.400s: line %zu: rule_tests: entry %zu: %s", test->file,
                 test->line, test->number, text);
        if (!config_report(check->config, true, whole))
                check->r = error_set(check->err, EINVAL, "%s", whole);
}

int config_check_rule_tests(struct config *config, rules_url_fn *url, struct error *err)
{
        struct check check = {config, err, 0};

        /* After another error the rules may be incomplete. */
        if (config->findings && config->findings->n_errors > 0)
                return 0;
        int r = config_run_rule_tests(config, url, check_test, &check, err);
        return r < 0 ? r : check.r;
}
