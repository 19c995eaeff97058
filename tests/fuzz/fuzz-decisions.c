/*
 * Rules and a call: {"rules": […], "server", "tool", "arguments", "annotations", "trusts", "seen", "sent"}. The decision ends within
 * its bound, and is that of an interpreter that goes through the rules as they are written, one after the other.
 *
 * A decision with a fault is a denial; the interpreter has no bounds and is not compared then.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "policy/rules/rules.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "policy/network-rules.h"

enum {
        RULES_TRIED = 32,
        DIGITS = 512,
        TEXT_SIZE = 64 * 1024,
        SECONDS_MAX = 5,
        REGEX_STEPS = 1000 * 1000
};

/* The interpreter could not tell. */
static bool unsure;

/* ---- the parser of URLs that both use: http://HOST[:PORT]… ---- */

static bool read_url(const char *url, size_t n, struct rules_url *ret)
{
        size_t scheme = strlen("http://");

        if (n <= scheme || memcmp(url, "http://", scheme) != 0)
                return false;
        size_t end = scheme;
        while (end < n && url[end] && !strchr(":/?#", url[end]))
                end++;
        if (end == scheme || end - scheme >= sizeof(ret->host) || memchr(url, '@', n))
                return false;
        memcpy(ret->host, url + scheme, end - scheme);
        ret->host[end - scheme] = '\0';
        ret->port = end < n && url[end] == ':' ? 8080 : 80;
        return true;
}

/* ---- numbers: sign, digits without zeros at both ends, power of ten of the first digit ---- */

struct number {
        bool is_negative;
        char digits[DIGITS];
        size_t n;
        long power;
};

static bool read_number(yyjson_val *value, struct number *ret)
{
        const char *p = yyjson_get_raw(value), *end = p + yyjson_get_len(value);
        long point = 0;
        bool has_point = false;

        *ret = (struct number){.is_negative = *p == '-'};
        for (p += *p == '-'; p < end && *p != 'e' && *p != 'E'; p++) {
                if (*p == '.') {
                        has_point = true;
                        continue;
                }
                if (ret->n == DIGITS)
                        return false;
                if (ret->n > 0 || *p != '0')
                        ret->digits[ret->n++] = *p;
                else if (has_point)
                        point--;
                if (!has_point && ret->n > 0)
                        point++;
        }
        if (p < end && end - p > 10)
                return false;
        ret->power = point + (p < end ? atol(p + 1) : 0);
        while (ret->n > 0 && ret->digits[ret->n - 1] == '0')
                ret->n--;
        return true;
}

static int compare_numbers(yyjson_val *a, yyjson_val *b)
{
        struct number x, y;

        if (!read_number(a, &x) || !read_number(b, &y)) {
                unsure = true;
                return 0;
        }
        if (x.n == 0 || y.n == 0)
                return x.n == y.n  ? 0
                       : (x.n > 0) ? (x.is_negative ? -1 : 1)
                                   : (y.is_negative ? 1 : -1);
        if (x.is_negative != y.is_negative)
                return x.is_negative ? -1 : 1;
        int order = x.power != y.power ? (x.power < y.power ? -1 : 1)
                                       : memcmp(x.digits, y.digits, x.n < y.n ? x.n : y.n);
        if (order == 0)
                order = x.n < y.n ? -1 : x.n > y.n;
        return x.is_negative ? -order : order;
}

static bool is_one_double(yyjson_val *a, yyjson_val *b)
{
        double x = 0, y = 0;

        if (yyjson_get_len(a) > 1024 || yyjson_get_len(b) > 1024)
                return true;
        bool is_a = json_double(a, &x) >= 0, is_b = json_double(b, &y) >= 0;
        return is_a && is_b ? x == y : is_a == is_b;
}

/* ---- conditions, as docs/rules.md tells them ---- */

/* Numbers that are one double count as equal. */
static bool is_near;

static const char *type_of(yyjson_val *value)
{
        return json_is_number(value) ? "number" : yyjson_get_type_desc(value);
}

static bool same_type(yyjson_val *a, yyjson_val *b)
{
        return (yyjson_is_bool(a) && yyjson_is_bool(b)) || strcmp(type_of(a), type_of(b)) == 0;
}

static bool equal(yyjson_val *a, yyjson_val *b)
{
        yyjson_val *key, *value;
        size_t i, n;

        if (!same_type(a, b))
                return false;
        if (json_is_number(a))
                return compare_numbers(a, b) == 0 || (is_near && is_one_double(a, b));
        if (yyjson_is_bool(a))
                return yyjson_get_bool(a) == yyjson_get_bool(b);
        if (yyjson_is_str(a))
                return yyjson_get_len(a) == yyjson_get_len(b) &&
                       memcmp(yyjson_get_str(a), yyjson_get_str(b), yyjson_get_len(a)) == 0;
        if (yyjson_is_ctn(a) && yyjson_get_len(a) != yyjson_get_len(b))
                return false;
        yyjson_arr_foreach (a, i, n, value)
                if (!equal(value, yyjson_arr_get(b, i)))
                        return false;
        yyjson_obj_foreach (a, i, n, key, value) {
                yyjson_val *other = yyjson_obj_getn(b, yyjson_get_str(key), yyjson_get_len(key));
                if (!other || !equal(value, other))
                        return false;
        }
        return true;
}

/* By backtracking, with a memory of what has failed: one bit for each place of the pattern and of the text. */
static bool glob(const char *pattern, const char *text, size_t n, size_t from, size_t at,
                 char *failed)
{
        size_t m = strlen(pattern);
        char *known = &failed[from * (n + 1) + at];
        bool found;

        if (*known)
                return false;
        if (from == m) {
                found = at == n;
        } else if (strncmp(pattern + from, "**", 2) == 0) {
                size_t rest = from;
                while (pattern[rest] == '*')
                        rest++;
                found = glob(pattern, text, n, rest, at, failed) ||
                        (at < n && glob(pattern, text, n, from, at + 1, failed));
                /* All parts between two slashes may be left out, with one of the slashes. */
                bool is_parts = from > 0 && pattern[from - 1] == '/' && pattern[rest] == '/';
                found = found || (is_parts && at > 0 && text[at - 1] == '/' &&
                                  glob(pattern, text, n, rest + 1, at, failed));
        } else if (pattern[from] == '*') {
                found = glob(pattern, text, n, from + 1, at, failed) ||
                        (at < n && text[at] != '/' && glob(pattern, text, n, from, at + 1, failed));
        } else {
                found = at < n && pattern[from] == text[at] &&
                        glob(pattern, text, n, from + 1, at + 1, failed);
        }
        *known = !found;
        return found;
}

static bool matches_glob(const char *pattern, const char *text, size_t n)
{
        _cleanup_free_ char *failed = NULL;

        if (n > 2000) {
                unsure = true;
                return false;
        }
        failed = calloc(strlen(pattern) + 1, n + 1);
        assert(failed);
        return glob(pattern, text, n, 0, 0, failed);
}

static bool is_plain_path(const char *text, size_t n)
{
        char with[TEXT_SIZE + 2];

        if (n == 0 || text[0] != '/' || memchr(text, '\\', n) || memchr(text, '\0', n) ||
            n > TEXT_SIZE)
                return false;
        snprintf(with, sizeof(with), "%.*s%s", (int)n, text, text[n - 1] == '/' ? "" : "/");
        return !strstr(with, "//") && !strstr(with, "/./") && !strstr(with, "/../");
}

static bool matches_regex(const char *pattern, const char *text, size_t n)
{
        PCRE2_SIZE at;
        int why;

        pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                         PCRE2_UTF | PCRE2_DOLLAR_ENDONLY, &why, &at, NULL);
        pcre2_match_data *data = code ? pcre2_match_data_create(1, NULL) : NULL;
        pcre2_match_context *context = pcre2_match_context_create(NULL);
        pcre2_set_match_limit(context, REGEX_STEPS);
        int r = data ? pcre2_match(code, (PCRE2_SPTR)text, n, 0, PCRE2_NO_JIT, data, context) : -2;
        pcre2_match_context_free(context);
        pcre2_match_data_free(data);
        pcre2_code_free(code);
        if (r < 0 && r != PCRE2_ERROR_NOMATCH)
                unsure = true;
        return r >= 0;
}

static bool host_is(yyjson_val *names, const struct rules_url *url)
{
        struct network_host host;
        struct network_rule rule;
        yyjson_val *item;
        size_t i, n;

        if (yyjson_is_str(names)) {
                if (!network_host_parse(url->host, strlen(url->host), &host) ||
                    network_rule_parse(yyjson_get_str(names), &rule))
                        return false;
                return network_rules_name(&rule, 1, &host,
                                          rule.port ? url->port : NETWORK_PORT_TLS);
        }
        yyjson_arr_foreach (names, i, n, item)
                if (host_is(item, url))
                        return true;
        return false;
}

static size_t characters(const char *text, size_t n)
{
        size_t found = 0;

        for (size_t i = 0; i < n; i++)
                found += (text[i] & 0xc0) != 0x80;
        return found;
}

static bool nearly_equal(yyjson_val *a, yyjson_val *b)
{
        is_near = true;
        bool found = equal(a, b);
        is_near = false;
        return found;
}

static enum verdict of(bool holds)
{
        return holds ? VERDICT_YES : VERDICT_NO;
}

static enum verdict test(yyjson_val *condition, yyjson_val *value);

static enum verdict test_text(const char *name, yyjson_val *wanted, yyjson_val *value)
{
        const char *text = yyjson_get_str(value), *pattern = yyjson_get_str(wanted);
        size_t n = yyjson_get_len(value);
        struct rules_url url = {};
        struct network_host host;

        if (!text)
                return VERDICT_OTHER;
        if (strcmp(name, "prefix") == 0)
                return of(n >= strlen(pattern) && memcmp(text, pattern, strlen(pattern)) == 0);
        if (strcmp(name, "glob") == 0)
                return of(matches_glob(pattern, text, n));
        if (strcmp(name, "path") == 0)
                return is_plain_path(text, n) ? of(matches_glob(pattern, text, n)) : VERDICT_OTHER;
        if (strcmp(name, "regex") == 0)
                return of(matches_regex(pattern, text, n));
        if (!read_url(text, n, &url) || !network_host_parse(url.host, strlen(url.host), &host))
                return VERDICT_OTHER;
        return of(host_is(wanted, &url));
}

static enum verdict test_length(yyjson_val *wanted, yyjson_val *value)
{
        int64_t most = 0;

        json_int64(wanted, &most);
        if (!yyjson_is_str(value) && !yyjson_is_arr(value))
                return VERDICT_OTHER;
        return of((int64_t)(yyjson_is_arr(value) ? yyjson_arr_size(value)
                                                 : characters(yyjson_get_str(value),
                                                              yyjson_get_len(value))) <= most);
}

static enum verdict test_one_of(yyjson_val *list, yyjson_val *value)
{
        enum verdict verdict = VERDICT_OTHER;
        yyjson_val *item;
        size_t i, n;

        yyjson_arr_foreach (list, i, n, item) {
                if (equal(item, value))
                        return VERDICT_YES;
                if (same_type(item, value))
                        verdict = VERDICT_NO;
        }
        yyjson_arr_foreach (list, i, n, item)
                if (nearly_equal(item, value))
                        return VERDICT_OTHER;
        return verdict;
}

static enum verdict test_type(const char *type, yyjson_val *value)
{
        if (strcmp(type, "integer") == 0)
                return of(json_is_integer(value));
        if (strcmp(type, "boolean") == 0)
                return of(yyjson_is_bool(value));
        return of(strcmp(type, type_of(value)) == 0);
}

static enum verdict test_one(const char *name, yyjson_val *wanted, yyjson_val *value)
{
        if (strcmp(name, "absent") == 0)
                return of(yyjson_get_bool(wanted) == !value);
        if (strcmp(name, "not") == 0) {
                enum verdict verdict = test(wanted, value);
                return verdict == VERDICT_YES  ? VERDICT_NO
                       : verdict == VERDICT_NO ? VERDICT_YES
                                               : verdict;
        }
        if (!value)
                return VERDICT_MISSING;
        if (strcmp(name, "equals") == 0)
                return !same_type(wanted, value)     ? VERDICT_OTHER
                       : equal(wanted, value)        ? VERDICT_YES
                       : nearly_equal(wanted, value) ? VERDICT_OTHER
                                                     : VERDICT_NO;
        if (strcmp(name, "one_of") == 0)
                return test_one_of(wanted, value);
        if (strcmp(name, "min") == 0 || strcmp(name, "max") == 0) {
                if (!json_is_number(value))
                        return VERDICT_OTHER;
                int order = compare_numbers(value, wanted);
                if (strcmp(name, "min") == 0 ? order >= 0 : order <= 0)
                        return VERDICT_YES;
                return is_one_double(value, wanted) ? VERDICT_OTHER : VERDICT_NO;
        }
        if (strcmp(name, "max_length") == 0)
                return test_length(wanted, value);
        return strcmp(name, "type") == 0 ? test_type(yyjson_get_str(wanted), value)
                                         : test_text(name, wanted, value);
}

static enum verdict test(yyjson_val *condition, yyjson_val *value)
{
        enum verdict all = VERDICT_YES;
        yyjson_val *name, *wanted;
        size_t i, n;

        yyjson_obj_foreach (condition, i, n, name, wanted) {
                enum verdict verdict = test_one(yyjson_get_str(name), wanted, value);
                if (verdict == VERDICT_MISSING)
                        return verdict;
                if (verdict == VERDICT_NO || all == VERDICT_NO)
                        all = VERDICT_NO;
                else if (verdict == VERDICT_OTHER)
                        all = verdict;
        }
        return all;
}

/* ---- pointers: counts the values at which the condition holds for an allow, and for another rule ---- */

struct counts {
        size_t values, yes, any;
};

/* A value of another type than a step is for. */
static void count_other(struct counts *counts)
{
        counts->values++;
        counts->any++;
}

static bool is_json_text(yyjson_val *value)
{
        const char *text = yyjson_get_str(value);

        while (text && *text && strchr(" \t\r\n", *text))
                text++;
        return text && (*text == '[' || *text == '{');
}

static void count(yyjson_val *condition, const char *pointer, yyjson_val *value,
                  struct counts *counts)
{
        char step[1100];
        size_t m = 0, i, n;
        yyjson_val *item;

        if (*pointer == '\0' || !value) {
                enum verdict verdict = test(condition, value);
                counts->values++;
                counts->yes += verdict == VERDICT_YES;
                counts->any += verdict == VERDICT_YES || verdict == VERDICT_OTHER;
                return;
        }
        const char *rest = pointer + 1;
        bool is_each = *rest == '*' && (rest[1] == '/' || rest[1] == '\0');
        for (; *rest && *rest != '/'; rest++)
                step[m++] = *rest != '~' ? *rest : *++rest == '0' ? '~' : '/';
        step[m] = '\0';
        if (is_each) {
                yyjson_arr_foreach (value, i, n, item)
                        count(condition, rest, item, counts);
                if (is_json_text(value))
                        count_other(counts);
                else if (!yyjson_is_arr(value))
                        count(condition, rest, value, counts);
                else if (yyjson_arr_size(value) == 0)
                        count(condition, "", NULL, counts);
                return;
        }
        char *end;
        unsigned long index = strtoul(step, &end, 10);
        bool is_index = m > 0 && m < 10 && *end == '\0' && (*step != '0' || m == 1) &&
                        strspn(step, "0123456789") == m;
        if (!yyjson_is_obj(value) && !yyjson_is_null(value) &&
            !(yyjson_is_arr(value) && is_index)) {
                count_other(counts);
                return;
        }
        count(condition, rest,
              yyjson_is_obj(value)               ? yyjson_obj_getn(value, step, m)
              : yyjson_is_arr(value) && is_index ? yyjson_arr_get(value, index)
                                                 : NULL,
              counts);
}

static bool when_holds(yyjson_val *when, yyjson_val *arguments, bool is_allow)
{
        yyjson_val *pointer, *condition;
        size_t i, n;

        yyjson_obj_foreach (when, i, n, pointer, condition) {
                struct counts counts = {};
                count(condition, yyjson_get_str(pointer), arguments, &counts);
                if (is_allow ? counts.yes < counts.values : counts.any == 0)
                        return false;
        }
        return true;
}

/* ---- the other members of a rule ---- */

static bool fits(const char *pattern, const char *name)
{
        if (*pattern == '*')
                return fits(pattern + 1, name) || (*name && fits(pattern, name + 1));
        return *pattern == *name && (*name == '\0' || fits(pattern + 1, name + 1));
}

static bool is_for(yyjson_val *selector, const char *name)
{
        yyjson_val *item;
        size_t i, n;

        if (yyjson_is_str(selector))
                return fits(yyjson_get_str(selector), name);
        yyjson_arr_foreach (selector, i, n, item)
                if (fits(yyjson_get_str(item), name))
                        return true;
        return false;
}

static bool hint(const struct rules_call *call, const char *name, bool otherwise)
{
        yyjson_val *value = yyjson_obj_get(call->annotations, name);

        return yyjson_is_bool(value) ? yyjson_get_bool(value) : otherwise;
}

static bool hints_hold(yyjson_val *hints, const struct rules_call *call)
{
        bool read_only = hint(call, "readOnlyHint", false);
        yyjson_val *name, *wanted;
        size_t i, n;

        yyjson_obj_foreach (hints, i, n, name, wanted) {
                const char *text = yyjson_get_str(name);
                bool is = strcmp(text, "read_only") == 0 ? read_only
                          : strcmp(text, "destructive") == 0
                                  ? !read_only && hint(call, "destructiveHint", true)
                          : strcmp(text, "idempotent") == 0 ? hint(call, "idempotentHint", false)
                                                            : hint(call, "openWorldHint", true);
                if (is != yyjson_get_bool(wanted))
                        return false;
        }
        return true;
}

static bool labels_hold(yyjson_val *seen, unsigned have)
{
        yyjson_val *item;
        size_t i, n;

        yyjson_arr_foreach (seen, i, n, item)
                if (!(have & (yyjson_equals_str(item, "private") ? 1u : 2u)))
                        return false;
        return true;
}

static uint64_t sent(void *data, const struct rule *rule, enum rules_span span)
{
        return *(uint64_t *)data;
}

static bool after_holds(yyjson_val *after, uint64_t n_sent)
{
        yyjson_val *name, *value;
        int64_t least;
        size_t i, n;

        yyjson_obj_foreach (after, i, n, name, value)
                if (json_int64(value, &least) >= 0 && n_sent >= (uint64_t)least)
                        return true;
        return !after;
}

static bool applies(yyjson_val *rule, const char *name, const struct rules_call *call,
                    bool is_allow)
{
        yyjson_val *hints = yyjson_obj_get(rule, "hints"), *sends = yyjson_obj_get(rule, "sends");

        if (hints && ((is_allow && !call->trusts_hints) || !hints_hold(hints, call)))
                return false;
        if (sends && yyjson_equals_str(sends, "open") != call->is_open)
                return false;
        return labels_hold(yyjson_obj_get(rule, "seen"), call->seen) &&
               when_holds(yyjson_obj_get(rule, "when"), call->arguments, is_allow) &&
               after_holds(yyjson_obj_get(rule, "after"), *(uint64_t *)call->data);
}

/* *which: the rule, or the number of rules. */
static enum rules_effect interpret(yyjson_val *list, const struct rules_call *call, size_t *which)
{
        char name[RULES_NAME_MAX + 1];
        yyjson_val *rule;
        size_t n;

        snprintf(name, sizeof(name), "%s.%s", call->server, call->tool);
        yyjson_arr_foreach (list, *which, n, rule)
                for (enum rules_effect effect = 0; effect < RULES_EFFECTS; effect++) {
                        yyjson_val *names = yyjson_obj_get(rule, rules_effect_names[effect]);
                        if (names && is_for(names, name) &&
                            applies(rule, name, call, effect == RULES_ALLOW))
                                return effect;
                }
        return RULES_ALLOW;
}

/* ---- the target ---- */

static struct rules *compile(yyjson_val *list, const struct rules_server *server)
{
        char *texts[RULES_TRIED + 1] = {};
        struct rules *rules = NULL;
        struct error err = {};
        yyjson_val *item, *at;
        size_t i, n, kept = 0;

        if (!yyjson_is_arr(list) || yyjson_arr_size(list) > RULES_TRIED)
                return NULL;
        yyjson_arr_foreach (list, i, n, item) {
                struct rule rule = {};
                char *text = NULL;
                bool is_right = rule_parse(item, &rule, &at, &err) >= 0;
                rule_done(&rule);
                if (is_right && json_write(item, &text, &(size_t){0}) >= 0 &&
                    asprintf(
                            &texts[kept],
                            "{\"file\":\"f\",\"line\":%zu,\"number\":%zu,\"own\":false,\"rule\":%s}",
                            i + 1, i + 1, text) >= 0)
                        kept++;
                free(text);
        }
        if (kept == yyjson_arr_size(list))
                rules_new(texts, server, 1, &rules, &err);
        for (i = 0; i < kept; i++)
                free(texts[i]);
        return rules;
}

static void decide(const struct rules *rules, yyjson_val *list, const struct rules_call *call)
{
        struct rules_decision decision;
        struct timespec before, after;
        size_t which;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
        rules_decide(rules, call, &decision);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
        assert(after.tv_sec - before.tv_sec < SECONDS_MAX);
        if (decision.fault) {
                assert(decision.effect == RULES_DENY && !decision.rule);
                return;
        }
        unsure = false;
        enum rules_effect effect = interpret(list, call, &which);
        if (unsure)
                return;
        assert(effect == decision.effect);
        assert(decision.rule ? decision.rule == rules_at(rules, which)
                             : which == yyjson_arr_size(list));
        if (rules_always_deny(rules, call->server, call->tool))
                assert(effect == RULES_DENY);
        assert(rules_effects(rules, call) >> effect & 1);
        if (!rules_can_match(rules, call->server, call->tool))
                assert(!decision.rule);
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error err = {};
        uint64_t n_sent = 0;
        int64_t number = 0;

        if (json_parse((const char *)data, n, &doc, &err) < 0)
                return false;
        yyjson_val *root = yyjson_doc_get_root(doc), *list = yyjson_obj_get(root, "rules");
        const struct rules_server server = {json_string(root, "server", NULL) ?: "files",
                                            yyjson_get_bool(yyjson_obj_get(root, "trusts"))};
        yyjson_val *arguments = yyjson_obj_get(root, "arguments");
        if (json_check_names(root, NULL, &err) < 0 || (arguments && !yyjson_is_obj(arguments)))
                return false;
        struct rules *rules = compile(list, &server);
        if (!rules)
                return false;
        json_int64(yyjson_obj_get(root, "sent"), &number);
        n_sent = number > 0 ? (uint64_t)number : 0;
        number = 0;
        json_int64(yyjson_obj_get(root, "seen"), &number);
        const struct rules_call call = {.server = server.name,
                                        .tool = json_string(root, "tool", NULL) ?: "write_file",
                                        .arguments = arguments,
                                        .annotations = yyjson_obj_get(root, "annotations"),
                                        .trusts_hints = server.trusts_hints,
                                        .is_open = yyjson_get_bool(yyjson_obj_get(root, "open")),
                                        .seen = (unsigned)number & 3,
                                        .url = read_url,
                                        .sent = sent,
                                        .data = &n_sent};
        if (strlen(call.server) + strlen(call.tool) < RULES_NAME_MAX - 1)
                decide(rules, list, &call);
        rules_free(rules);
        return true;
}

FUZZ_TARGET
