/* The key "rule_tests": what the rules must say of calls (policy/rules/rule-test.h). */
#pragma once

#include "policy/config/reader.h"
#include "policy/rules/rule-test.h"

config_code_fn config_read_rule_tests;

/* Runs all entries, after config_finish(): those of the top level with the rules of the top level, those of a profile with all of the
 * profile's. told() gets each. Returns 0 or negative errno: the entries could not be run. */
int config_run_rule_tests(const struct config *config, rules_url_fn *url,
                          void (*told)(void *data, const struct rule_test *test,
                                       const struct rules_decision *found, bool passed),
                          void *data, struct error *err);

/* Runs them, and reports each that fails: `FILE: line 3: rule_tests: entry 2: …`. Without a parser of URLs (url is NULL), entries
 * that need one count as passed. Returns 0 or negative errno. */
int config_check_rule_tests(struct config *config, rules_url_fn *url, struct error *err);
