/* An entry of "rule_tests". */
#include "policy/rules/rule-test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "policy/did-you-mean.h"

static const char *const members[] = {"call", "arguments", "annotations", "seen", "expect", NULL};
static const char *const labels[] = {"private", "untrusted", NULL};
static const unsigned label_bits[] = {RULES_PRIVATE, RULES_UNTRUSTED};

static int index_of(const char *const *words, const char *word)
{
        for (int i = 0; word && words[i]; i++)
                if (strcmp(words[i], word) == 0)
                        return i;
        return -1;
}

static int read_seen(yyjson_val *list, unsigned *ret, yyjson_val **at, struct error *err)
{
        yyjson_val *item;
        size_t i, n;

        *at = list;
        if (list && !yyjson_is_arr(list))
                return error_set(err, EINVAL, "seen must be an array of labels: [\"private\"]");
        yyjson_arr_foreach (list, i, n, item) {
                int label = index_of(labels, yyjson_get_str(item));
                *at = item;
                if (label < 0)
                        return error_set(err, EINVAL,
                                         "seen: a label is \"private\" or \"untrusted\"");
                *ret |= label_bits[label];
        }
        return 0;
}

static int read_entry(yyjson_val *entry, const struct rules_server *servers, size_t n_servers,
                      struct rule_test *ret, yyjson_val **at, struct error *err)
{
        yyjson_val *key, *value;
        size_t i, n;

        *at = entry;
        if (!yyjson_is_obj(entry))
                return error_set(
                        err, EINVAL,
                        "must be an object: {\"call\": \"files.write_file\", \"arguments\": {}, \"expect\": \"ask\"}");
        if (json_check_names(entry, NULL, err) < 0)
                return -EINVAL;
        yyjson_obj_foreach (entry, i, n, key, value) {
                const char *name = yyjson_get_str(key);
                const char *meant = index_of(members, name) < 0 ? did_you_mean(name, members)
                                                                : NULL;
                *at = key;
                if (index_of(members, name) < 0)
                        return error_set(err, EINVAL, "unknown key \"%.64s\"%s%s%s", name,
                                         meant ? "; did you mean \"" : "", meant ? meant : "",
                                         meant ? "\"?" : "");
        }
        *at = entry;
        ret->name = json_string(entry, "call", NULL);
        if (!ret->name)
                return error_set(err, EINVAL, "call is missing: \"files.write_file\"");
        *at = yyjson_obj_get(entry, "expect");
        int effect = index_of(rules_effect_names, yyjson_get_str(*at));
        if (effect < 0) {
                *at = *at ? *at : entry;
                return error_set(err, EINVAL, "expect must be \"allow\", \"ask\" or \"deny\"");
        }
        ret->expected = (enum rules_effect)effect;
        *at = entry;
        int r = named_call_init(&ret->named, ret->name, yyjson_obj_get(entry, "arguments"),
                                yyjson_obj_get(entry, "annotations"), servers, n_servers, err);
        return r < 0 ? r : read_seen(yyjson_obj_get(entry, "seen"), &ret->named.call.seen, at, err);
}

int rule_test_check(yyjson_val *entry, yyjson_val **at, struct error *err)
{
        struct rule_test test = {};

        return read_entry(entry, NULL, 0, &test, at, err);
}

int rule_test_read(yyjson_val *kept, const struct rules_server *servers, size_t n_servers,
                   struct rule_test *ret, struct error *err)
{
        int64_t line = 0, number = 0;
        yyjson_val *at;

        *ret = (struct rule_test){};
        int r = read_entry(yyjson_obj_get(kept, "test"), servers, n_servers, ret, &at, err);
        json_int64(yyjson_obj_get(kept, "line"), &line);
        json_int64(yyjson_obj_get(kept, "number"), &number);
        ret->file = json_string(kept, "file", NULL);
        ret->line = (size_t)line;
        ret->number = (size_t)number;
        ret->is_own = yyjson_get_bool(yyjson_obj_get(kept, "own"));
        return r;
}

bool rule_test_run(const struct rule_test *test, const struct rules *rules, rules_url_fn *url,
                   struct rules_decision *ret)
{
        struct rules_call call = test->named.call;

        call.url = url;
        *ret = (struct rules_decision){};
        if (rules)
                rules_decide(rules, &call, ret);
        return ret->effect == test->expected;
}

void rules_decision_tell(const struct rules_decision *decision, char *to, size_t n)
{
        const struct rule *rule = decision->rule;
        char place[256] = "";

        if (rule)
                rule_place(rule, place, sizeof(place));
        snprintf(to, n, "%s (%s%s%s)", rules_effect_names[decision->effect],
                 decision->fault ? decision->fault
                 : rule          ? place
                                 : "no rule matches",
                 rule && rule->why ? ": " : "", rule && rule->why ? rule->why : "");
}

void rule_test_tell(const struct rule_test *test, const struct rules_decision *found, char *to,
                    size_t n)
{
        char decision[512];

        rules_decision_tell(found, decision, sizeof(decision));
        snprintf(to, n, "%.300s: expected %s, found %s", test->name,
                 rules_effect_names[test->expected], decision);
}
