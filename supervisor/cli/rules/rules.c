/* cloister rules list, explain, test. */
#include "supervisor/cli/rules/rules.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/printable.h"
#include "policy/config/rule-test-keys.h"
#include "policy/rules/labels.h"
#include "supervisor/cli/command/url-reader.h"
#include "supervisor/cli/rules/opened-config.h"

enum { OUTPUT_MAX = 16 * 1024 * 1024, ARGUMENTS_MAX = 1024 * 1024, LINE_SIZE = 2048 };

/* Names and texts come from files: control characters are escaped. */
static void print_line(const char *text)
{
        printable_print(stdout, text);
        putchar('\n');
}

static void put_selectors(struct json_out *out, const struct rule *rule)
{
        json_out_begin(out, "names", '[');
        for (char **s = rule->selectors; *s; s++)
                json_out_text(out, NULL, *s);
        json_out_end(out, ']');
}

static void put_rule(struct json_out *out, const struct rule *rule)
{
        json_out_text(out, "file", rule->file);
        json_out_int(out, "line", (int64_t)rule->line);
        json_out_text(out, "effect", rules_effect_names[rule->effect]);
        put_selectors(out, rule);
        if (*rule->conditions)
                json_out_text(out, "conditions", rule->conditions);
        if (rule->why)
                json_out_text(out, "why", rule->why);
}

/* `config.json line 3: allow files.read_file, files.list_* if {…}: why` */
static void describe(const struct rule *rule, char *to, size_t n)
{
        char place[256];
        size_t at;

        rule_place(rule, place, sizeof(place));
        at = (size_t)snprintf(to, n, "%s: %s", place, rules_effect_names[rule->effect]);
        for (char **s = rule->selectors; *s && at < n; s++)
                at += (size_t)snprintf(to + at, n - at, "%s %s", s == rule->selectors ? "" : ",",
                                       *s);
        if (*rule->conditions && at < n)
                at += (size_t)snprintf(to + at, n - at, " if %s", rule->conditions);
        if (rule->why && at < n)
                snprintf(to + at, n - at, ": %s", rule->why);
}

/* ---- list ---- */

int cli_rules_list(const struct options *o, const char *const *words, size_t n)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(OUTPUT_MAX);
        struct json_out out = {.to = &text, .indent = true};
        char line[LINE_SIZE];
        struct opened_config opened;
        struct error err = {};
        int status = 0;

        if (opened_config_open(&opened, o, &err) < 0) {
                opened_config_close(&opened);
                return cli_fail(1, &err);
        }
        const struct rules *rules = opened.profile->compiled_rules;
        json_out_begin(&out, NULL, '[');
        for (size_t i = 0; i < rules_count(rules); i++) {
                json_out_begin(&out, NULL, '{');
                put_rule(&out, rules_at(rules, i));
                json_out_end(&out, '}');
                describe(rules_at(rules, i), line, sizeof(line));
                if (!o->json)
                        print_line(line);
        }
        json_out_end(&out, ']');
        if (o->json)
                status = cli_print_json(&out, "rules");
        else if (rules_count(rules) == 0)
                puts("no rules: code can call each tool of the profile with any arguments");
        opened_config_close(&opened);
        return status;
}

/* ---- explain ---- */

static const char *const misses[] = {
        [RULES_MATCHES] = "matches",
        [RULES_MISS_SELECTOR] = "is for other tools",
        [RULES_MISS_HINTS] = "does not match: the tool has other annotations",
        [RULES_MISS_TRUST] =
                "does not match: it allows by annotations, and the server has no \"trust_hints\"",
        [RULES_MISS_SENDS] = "does not match: sends",
        [RULES_MISS_SEEN] = "does not match: the session has not seen the labels",
        [RULES_MISS_WHEN] = "does not match: ",
        [RULES_MISS_AFTER] = "matches only after the calls that \"after\" names",
        [RULES_MISS_FAULT] = "cannot be decided: ",
};

struct explained {
        enum rules_miss miss;
        char text[POINTER_MAX + 256];
};

/* "/to/ *" without the blank. A name of the config may have any character but NUL. */
static void write_pointer(const struct pointer *pointer, char *to, size_t n)
{
        size_t at = 0;

        for (size_t i = 0; i < pointer->n && at + 3 < n; i++) {
                to[at++] = '/';
                for (const char *p = pointer->steps[i].name; *p && at + 3 < n; p++) {
                        if (*p == '~' || *p == '/')
                                to[at++] = '~';
                        to[at++] = *p == '~' ? '0' : *p == '/' ? '1' : *p;
                }
        }
        to[at] = '\0';
}

static void explain(const struct rule *rule, const struct rules_call *call, struct explained *ret)
{
        const char *fault = NULL;
        size_t when = 0;

        ret->miss = rules_explain(rule, call, &when, &fault);
        size_t n = (size_t)snprintf(ret->text, sizeof(ret->text), "%s", misses[ret->miss]);
        if (ret->miss == RULES_MISS_FAULT)
                snprintf(ret->text + n, sizeof(ret->text) - n, "%s", fault ? fault : "");
        else if (ret->miss == RULES_MISS_WHEN)
                write_pointer(&rule->when[when].pointer, ret->text + n, sizeof(ret->text) - n);
}

static int parse_word(const char *what, const char *word, yyjson_doc **ret, struct error *err)
{
        int r = strlen(word) > ARGUMENTS_MAX ? -E2BIG : json_parse(word, strlen(word), ret, err);

        if (r == -E2BIG)
                return error_set(err, E2BIG, "%s: more than %d bytes", what, ARGUMENTS_MAX);
        if (r < 0)
                return error_context(err, "%s", what);
        r = json_check_names(yyjson_doc_get_root(*ret), NULL, err);
        return r < 0 ? error_context(err, "%s", what) : 0;
}

static int print_explanation(const struct options *o, const char *name, const struct rules *rules,
                             const struct rules_call *call)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(OUTPUT_MAX);
        struct json_out out = {.to = &text, .indent = true};
        struct rules_decision decision = {};
        char line[LINE_SIZE], decided[512];
        struct explained explained;
        bool is_over = false;

        if (rules)
                rules_decide(rules, call, &decision);
        rules_decision_tell(&decision, decided, sizeof(decided));
        snprintf(line, sizeof(line), "%s: %s", name, decided);
        if (!o->json)
                print_line(line);
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "call", name);
        json_out_text(&out, "decision", rules_effect_names[decision.effect]);
        if (decision.fault)
                json_out_text(&out, "fault", decision.fault);
        json_out_begin(&out, "rules", '[');
        for (size_t i = 0; i < rules_count(rules); i++) {
                const struct rule *rule = rules_at(rules, i);
                explain(rule, call, &explained);
                json_out_begin(&out, NULL, '{');
                put_rule(&out, rule);
                json_out_bool(&out, "matches", explained.miss == RULES_MATCHES);
                json_out_bool(&out, "decides", rule == decision.rule);
                json_out_text(&out, "explanation", explained.text);
                json_out_end(&out, '}');
                if (o->json)
                        continue;
                describe(rule, line, sizeof(line));
                fputs("  ", stdout);
                printable_print(stdout, line);
                fputs("\n    ", stdout);
                printable_print(stdout, explained.text);
                puts(rule == decision.rule                        ? ", and decides"
                     : is_over && explained.miss == RULES_MATCHES ? ", but an earlier rule decides"
                                                                  : "");
                is_over |= rule == decision.rule;
        }
        json_out_end(&out, ']');
        json_out_end(&out, '}');
        return o->json ? cli_print_json(&out, "rules") : 0;
}

/* "private,untrusted" to bits; NULL: none. */
static int parse_labels(const char *words, unsigned *ret, struct error *err)
{
        char name[16];

        *ret = 0;
        for (const char *at = words; at; at = *at == ',' ? at + 1 : NULL) {
                size_t n = strcspn(at, ",");
                snprintf(name, sizeof(name), "%.*s", (int)(n < sizeof(name) ? n : 0), at);
                unsigned bit = label_find(name);
                if (bit == 0)
                        return error_set(
                                err, EINVAL,
                                "--seen: '%s': private, untrusted or private,untrusted is needed",
                                words);
                *ret |= bit;
                at += n;
        }
        return 0;
}

int cli_rules_explain(const struct options *o, const char *const *words, size_t n)
{
        _cleanup_json_ yyjson_doc *arguments = NULL, *annotations = NULL;
        struct named_call named;
        struct opened_config opened;
        struct error err = {};
        unsigned seen = 0;

        if (n == 0)
                return cli_fail_text(
                        2,
                        "rules explain: a tool is missing: 'cloister rules explain files.write_file'");
        if ((n > 1 && parse_word("arguments", words[1], &arguments, &err) < 0) ||
            (n > 2 && parse_word("annotations", words[2], &annotations, &err) < 0) ||
            parse_labels(o->seen, &seen, &err) < 0)
                return cli_fail(2, &err);
        int r = opened_config_open(&opened, o, &err), status = 1;
        if (r >= 0) {
                r = named_call_init(&named, words[0], yyjson_doc_get_root(arguments),
                                    yyjson_doc_get_root(annotations), opened.servers,
                                    opened.n_servers, &err);
                status = r < 0 ? 2 : 0;
        }
        if (r >= 0) {
                named.call.url = url_reader;
                named.call.seen = seen;
                status = print_explanation(o, words[0], opened.profile->compiled_rules,
                                           &named.call);
        }
        opened_config_close(&opened);
        return r < 0 ? cli_fail(status, &err) : status;
}

/* ---- test ---- */

struct report {
        const struct options *o;
        struct json_out *out;
        size_t n, n_failed;
};

static void report_test(void *data, const struct rule_test *test,
                        const struct rules_decision *found, bool passed)
{
        struct report *report = data;
        char text[LINE_SIZE];

        report->n++;
        report->n_failed += !passed;
        json_out_begin(report->out, NULL, '{');
        json_out_text(report->out, "file", test->file);
        json_out_int(report->out, "line", (int64_t)test->line);
        json_out_text(report->out, "call", test->name);
        json_out_text(report->out, "expected", rules_effect_names[test->expected]);
        json_out_text(report->out, "found", rules_effect_names[found->effect]);
        json_out_bool(report->out, "passed", passed);
        json_out_end(report->out, '}');
        if (report->o->json)
                return;
        rule_test_tell(test, found, text, sizeof(text));
        printf("%s %s line %zu: ", passed ? "ok    " : "FAILED", test->file, test->line);
        print_line(text);
}

int cli_rules_test(const struct options *o, const char *const *words, size_t n)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(OUTPUT_MAX);
        struct json_out out = {.to = &text, .indent = true};
        struct report report = {.o = o, .out = &out};
        struct opened_config opened;
        struct error err = {};

        json_out_begin(&out, NULL, '[');
        int r = opened_config_open(&opened, o, &err);
        if (r >= 0)
                r = config_run_rule_tests(opened.config, url_reader, report_test, &report, &err);
        opened_config_close(&opened);
        if (r < 0)
                return cli_fail(1, &err);
        json_out_end(&out, ']');
        if (o->json && cli_print_json(&out, "rules") != 0)
                return 1;
        if (!o->json && report.n == 0)
                puts("no tests: \"rule_tests\" in the config has them (docs/rules.md)");
        else if (!o->json)
                printf("%zu passed, %zu failed\n", report.n - report.n_failed, report.n_failed);
        return report.n_failed > 0;
}
