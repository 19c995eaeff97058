/* An entry of "rule_tests": what the rules must say of one call: {"call": "files.write_file", "arguments": {…}, "expect": "ask"}. */
#pragma once

#include "policy/rules/named-call.h"

enum { RULE_TESTS_MAX = 512 /* of a profile, and of the top level */ };

struct rule_test {
        const char *file; /* as the config's messages name it */
        size_t line;
        size_t number; /* of its "rule_tests", from 1 */
        bool is_own;   /* of a profile, not of the top level */
        const char *name;
        enum rules_effect expected;
        struct named_call named;
};

/* Checks the form of an entry. The error is a clause. *at: the value that it is about. Returns 0 or -EINVAL. */
int rule_test_check(yyjson_val *entry, yyjson_val **at, struct error *err);

/* Reads an entry as the config keeps it: {"file", "line", "number", "own", "test"}; kept is borrowed. Returns 0 or -EINVAL. */
int rule_test_read(yyjson_val *kept, const struct rules_server *servers, size_t n_servers,
                   struct rule_test *ret, struct error *err);

/* Decides the call; rules: NULL for none. Returns whether the decision is the expected one. A call that only a parser of
 * URLs decides passes where there is none (url is NULL). */
bool rule_test_run(const struct rule_test *test, const struct rules *rules, rules_url_fn *url,
                   struct rules_decision *ret);

/* Writes `expected ask, found deny (config.json line 14: writes outside the notes)`. */
void rule_test_tell(const struct rule_test *test, const struct rules_decision *found, char *to,
                    size_t n);

/* Writes `deny (config.json line 14: why)`, `allow (no rule matches)`. */
void rules_decision_tell(const struct rules_decision *decision, char *to, size_t n);
