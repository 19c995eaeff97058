/* The kinds of conditions are a table: a name, a parser of the rule's value, and a test of the argument's value. */
#include "policy/rules/condition.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <assert.h>
#include <errno.h>
#include <float.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/utf8.h"
#include "policy/did-you-mean.h"
#include "policy/network-rules.h"
#include "policy/rules/decimal.h"
#include "policy/rules/glob.h"

enum kind {
        KIND_EQUALS,
        KIND_ONE_OF,
        KIND_PREFIX,
        KIND_GLOB,
        KIND_PATH,
        KIND_HOST,
        KIND_MIN,
        KIND_MAX,
        KIND_MAX_LENGTH,
        KIND_REGEX,
        KIND_TYPE,
        KIND_ABSENT,
        KIND_NOT,
        KINDS,
};

static const char *const names[] = {
        [KIND_EQUALS] = "equals", [KIND_ONE_OF] = "one_of", [KIND_PREFIX] = "prefix",
        [KIND_GLOB] = "glob",     [KIND_PATH] = "path",     [KIND_HOST] = "host",
        [KIND_MIN] = "min",       [KIND_MAX] = "max",       [KIND_MAX_LENGTH] = "max_length",
        [KIND_REGEX] = "regex",   [KIND_TYPE] = "type",     [KIND_ABSENT] = "absent",
        [KIND_NOT] = "not",       [KINDS] = NULL,
};
static_assert(ARRAY_SIZE(names) == KINDS + 1, "a name for each kind");

static const char *const types[] = {"null",   "boolean", "number", "integer",
                                    "string", "array",   "object", NULL};
enum { TYPE_NUMBER = 2, TYPE_INTEGER = 3, NUMBER_MAX = 1024 };

struct member {
        enum kind kind;
        yyjson_doc *value; /* owned: of equals, one_of, min, max */
        char *text;        /* of prefix, glob, path */
        size_t n;          /* of the text, or of max_length */
        struct network_rule *hosts;
        pcre2_code *regex;
        unsigned type;
        bool is_absent;
        struct condition * not ;
};

struct condition {
        size_t n;
        struct member members[KINDS]; /* each kind once at most */
};

/* ---- types and values ---- */

static unsigned type_of(yyjson_val *value)
{
        if (yyjson_is_null(value))
                return 0;
        if (yyjson_is_bool(value))
                return 1;
        if (json_is_number(value))
                return TYPE_NUMBER;
        return yyjson_is_str(value) ? 4 : yyjson_is_arr(value) ? 5 : 6;
}

/* Two different numbers of DBL_DIG digits are different doubles. */
static bool is_plain_number(yyjson_val *value)
{
        size_t n = yyjson_get_len(value);

        return n <= DBL_DIG && !memchr(yyjson_get_raw(value), 'e', n) &&
               !memchr(yyjson_get_raw(value), 'E', n);
}

/* Most programs read numbers as doubles. A longer text than NUMBER_MAX counts as equal: servers read it in different ways. */
static bool are_one_double(yyjson_val *a, yyjson_val *b, struct rules_work *work)
{
        double x = 0, y = 0;

        if (is_plain_number(a) && is_plain_number(b))
                return false;
        if (yyjson_get_len(a) > NUMBER_MAX || yyjson_get_len(b) > NUMBER_MAX)
                return true;
        if (!rules_work_take(work, yyjson_get_len(a) + yyjson_get_len(b)))
                return true;
        int r = json_double(a, &x), s = json_double(b, &y);
        return r < 0 || s < 0 ? r < 0 && s < 0 : x == y;
}

static bool equal_numbers(yyjson_val *a, yyjson_val *b, bool as_doubles, struct rules_work *work)
{
        return decimal_compare(yyjson_get_raw(a), yyjson_get_len(a), yyjson_get_raw(b),
                               yyjson_get_len(b)) == 0 ||
               (as_doubles && are_one_double(a, b, work));
}

static bool equal(yyjson_val *a, yyjson_val *b, bool as_doubles, struct rules_work *work);

static bool equal_items(yyjson_val *a, yyjson_val *b, bool as_doubles, struct rules_work *work)
{
        yyjson_arr_iter x = yyjson_arr_iter_with(a), y = yyjson_arr_iter_with(b);
        yyjson_val *item;

        while ((item = yyjson_arr_iter_next(&x)))
                if (!equal(item, yyjson_arr_iter_next(&y), as_doubles, work))
                        return false;
        return true;
}

static bool equal_members(yyjson_val *a, yyjson_val *b, bool as_doubles, struct rules_work *work)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(a);
        yyjson_val *name;

        while ((name = yyjson_obj_iter_next(&iter))) {
                yyjson_val *other = yyjson_obj_getn(b, yyjson_get_str(name), yyjson_get_len(name));
                if (!rules_work_take(work, yyjson_obj_size(b)) || !other ||
                    !equal(yyjson_obj_iter_get_val(name), other, as_doubles, work))
                        return false;
        }
        return true;
}

/* a is the rule's, whose size bounds the comparison; the depth of both is bounded by JSON_DEPTH_MAX. */
static bool equal(yyjson_val *a, yyjson_val *b, bool as_doubles, struct rules_work *work)
{
        unsigned type = type_of(a);

        if (!rules_work_take(work, 1) || type != type_of(b))
                return false;
        switch (type) {
        case 0:
                return true;
        case 1:
                return yyjson_get_bool(a) == yyjson_get_bool(b);
        case TYPE_NUMBER:
                return rules_work_take(work, yyjson_get_len(b) / 8) &&
                       equal_numbers(a, b, as_doubles, work);
        case 4:
                return yyjson_get_len(a) == yyjson_get_len(b) &&
                       memcmp(yyjson_get_str(a), yyjson_get_str(b), yyjson_get_len(a)) == 0;
        case 5:
                return yyjson_arr_size(a) == yyjson_arr_size(b) &&
                       equal_items(a, b, as_doubles, work);
        default:
                return yyjson_obj_size(a) == yyjson_obj_size(b) &&
                       equal_members(a, b, as_doubles, work);
        }
}

/* ---- the rule's values ---- */

static int copy_value(struct member *m, yyjson_val *value, struct error *err)
{
        _cleanup_free_ char *text = NULL;
        size_t n = 0;

        int r = json_write(value, &text, &n);
        if (r >= 0 && n > CONDITION_VALUE_MAX)
                return error_set(err, EINVAL, "%s: the value is longer than %d bytes",
                                 names[m->kind], CONDITION_VALUE_MAX);
        if (r >= 0)
                r = json_parse(text, n, &m->value, err);
        if (r >= 0)
                r = json_check_names(yyjson_doc_get_root(m->value), NULL, err);
        return r;
}

static int read_text(struct member *m, yyjson_val *value, size_t most, struct error *err)
{
        size_t n = yyjson_get_len(value);

        if (!yyjson_is_str(value) || n == 0 || n > most || strlen(yyjson_get_str(value)) != n)
                return error_set(err, EINVAL, "%s must be a string of 1 to %zu bytes",
                                 names[m->kind], most);
        m->text = strndup(yyjson_get_str(value), n);
        m->n = n;
        return m->text ? 0 : -ENOMEM;
}

static int read_path(struct member *m, yyjson_val *value, struct error *err)
{
        int r = read_text(m, value, GLOB_MAX, err);

        if (r >= 0 && m->text[0] == '~')
                return error_set(
                        err, EINVAL,
                        "path: ~ is not expanded in rules: write the whole path, such as /home/me/notes/**");
        if (r >= 0 && m->text[0] != '/' && strncmp(m->text, "**", 2) != 0)
                return error_set(
                        err, EINVAL,
                        "path must begin with / or **: the value must be an absolute path");
        return r;
}

static int read_number(struct member *m, yyjson_val *value, struct error *err)
{
        if (!json_is_number(value))
                return error_set(err, EINVAL, "%s must be a number", names[m->kind]);
        return copy_value(m, value, err);
}

static int read_one_of(struct member *m, yyjson_val *value, struct error *err)
{
        if (!yyjson_is_arr(value) || yyjson_arr_size(value) < 1 ||
            yyjson_arr_size(value) > CONDITION_ITEMS_MAX)
                return error_set(err, EINVAL, "one_of must be an array of 1 to %d values",
                                 CONDITION_ITEMS_MAX);
        return copy_value(m, value, err);
}

static int add_host(struct member *m, yyjson_val *value, struct error *err)
{
        const char *text = yyjson_get_str(value);
        const char *why = text && strlen(text) == yyjson_get_len(value)
                                  ? network_rule_parse(text, &m->hosts[m->n])
                                  : "is not a string";

        if (why)
                return error_set(err, EINVAL, "host: \"%.100s\" %s", text ? text : "", why);
        m->n++;
        return 0;
}

static int read_host(struct member *m, yyjson_val *value, struct error *err)
{
        size_t n = yyjson_is_arr(value) ? yyjson_arr_size(value) : 1;
        yyjson_arr_iter iter = yyjson_arr_iter_with(value);
        yyjson_val *item;
        int r = 0;

        if (n < 1 || n > CONDITION_ITEMS_MAX)
                return error_set(err, EINVAL, "host must be a name, or an array of 1 to %d names",
                                 CONDITION_ITEMS_MAX);
        m->hosts = calloc(n, sizeof(*m->hosts));
        if (!m->hosts)
                return -ENOMEM;
        if (!yyjson_is_arr(value))
                return add_host(m, value, err);
        while (r >= 0 && (item = yyjson_arr_iter_next(&iter)))
                r = add_host(m, item, err);
        return r;
}

static int read_length(struct member *m, yyjson_val *value, struct error *err)
{
        int64_t n = -1;

        if (json_int64(value, &n) < 0 || n < 0)
                return error_set(err, EINVAL, "max_length must be a whole number");
        m->n = (size_t)n;
        return 0;
}

/* $ is the end of the value and not also a line feed before it; a dot is a character. */
static int read_regex(struct member *m, yyjson_val *value, struct error *err)
{
        PCRE2_UCHAR text[160];
        PCRE2_SIZE at = 0;
        int why = 0;

        int r = read_text(m, value, CONDITION_TEXT_MAX, err);
        if (r < 0)
                return r;
        m->regex = pcre2_compile((PCRE2_SPTR)m->text, m->n,
                                 PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C, &why,
                                 &at, NULL);
        if (m->regex)
                return 0;
        pcre2_get_error_message(why, text, sizeof(text));
        return error_set(err, EINVAL, "regex: %s at byte %zu", (char *)text, (size_t)at);
}

static int read_type(struct member *m, yyjson_val *value, struct error *err)
{
        for (m->type = 0; types[m->type]; m->type++)
                if (yyjson_equals_str(value, types[m->type]))
                        return 0;
        return error_set(
                err, EINVAL,
                "type must be \"string\", \"number\", \"integer\", \"boolean\", \"null\", \"array\" or \"object\"");
}

static int read_absent(struct member *m, yyjson_val *value, struct error *err)
{
        if (!yyjson_is_bool(value))
                return error_set(err, EINVAL, "absent must be true or false");
        m->is_absent = yyjson_get_bool(value);
        return 0;
}

static int read_condition(yyjson_val *value, unsigned depth, struct condition **ret,
                          yyjson_val **at, struct error *err);

static int read_member(struct member *m, yyjson_val *value, unsigned depth, yyjson_val **at,
                       struct error *err)
{
        switch (m->kind) {
        case KIND_EQUALS:
                return copy_value(m, value, err);
        case KIND_ONE_OF:
                return read_one_of(m, value, err);
        case KIND_PREFIX:
                return read_text(m, value, CONDITION_TEXT_MAX, err);
        case KIND_GLOB:
                return read_text(m, value, GLOB_MAX, err);
        case KIND_PATH:
                return read_path(m, value, err);
        case KIND_HOST:
                return read_host(m, value, err);
        case KIND_MIN:
        case KIND_MAX:
                return read_number(m, value, err);
        case KIND_MAX_LENGTH:
                return read_length(m, value, err);
        case KIND_REGEX:
                return read_regex(m, value, err);
        case KIND_TYPE:
                return read_type(m, value, err);
        case KIND_ABSENT:
                return read_absent(m, value, err);
        default:
                return read_condition(value, depth + 1, &m->not, at, err);
        }
}

static int find_kind(yyjson_val *name, enum kind *ret, struct error *err)
{
        const char *text = yyjson_get_str(name);

        for (*ret = 0; *ret < KINDS; (*ret)++)
                if (yyjson_equals_str(name, names[*ret]))
                        return 0;
        const char *meant = did_you_mean(text, names);
        return meant ? error_set(err, EINVAL, "unknown condition \"%.60s\"; did you mean \"%s\"?",
                                 text, meant)
                     : error_set(err, EINVAL, "unknown condition \"%.60s\"", text);
}

static int read_condition(yyjson_val *value, unsigned depth, struct condition **ret,
                          yyjson_val **at, struct error *err)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(value);
        yyjson_val *name;
        unsigned seen = 0;
        enum kind kind;
        int r = 0;

        *at = value;
        if (!yyjson_is_obj(value) || yyjson_obj_size(value) == 0)
                return error_set(err, EINVAL,
                                 "a condition must be an object, as {\"prefix\": \"/tmp/\"}");
        if (depth > CONDITION_DEPTH_MAX)
                return error_set(err, EINVAL, "not: deeper than %d levels", CONDITION_DEPTH_MAX);
        *ret = calloc(1, sizeof(**ret));
        if (!*ret)
                return error_errno(err, ENOMEM, "condition");
        while (r >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                *at = name;
                r = find_kind(name, &kind, err);
                if (r >= 0 && seen & 1u << kind)
                        r = error_set(err, EINVAL, "\"%s\" occurs twice", names[kind]);
                if (r < 0)
                        break;
                seen |= 1u << kind;
                struct member *m = &(*ret)->members[(*ret)->n++];
                m->kind = kind;
                r = read_member(m, yyjson_obj_iter_get_val(name), depth, at, err);
        }
        return r == -ENOMEM && !error_is_set(err) ? error_errno(err, ENOMEM, "condition") : r;
}

int condition_new(yyjson_val *value, struct condition **ret, yyjson_val **at, struct error *err)
{
        struct condition *condition = NULL;

        int r = read_condition(value, 0, &condition, at, err);
        if (r < 0)
                condition_free(condition);
        else
                *ret = condition;
        return r < 0 && r != -ENOMEM ? -EINVAL : r;
}

struct condition *condition_free(struct condition *condition)
{
        for (size_t i = 0; condition && i < condition->n; i++) {
                struct member *m = &condition->members[i];
                yyjson_doc_free(m->value);
                free(m->text);
                free(m->hosts);
                pcre2_code_free(m->regex);
                condition_free(m->not );
        }
        free(condition);
        return NULL;
}

/* ---- tests ---- */

static enum verdict yes_or_no(bool is_yes)
{
        return is_yes ? VERDICT_YES : VERDICT_NO;
}

/* Other numbers that are one double are of another type than the condition is for. */
static enum verdict compare(yyjson_val *wanted, yyjson_val *value, struct rules_work *work)
{
        if (equal(wanted, value, false, work))
                return VERDICT_YES;
        bool has_numbers = json_is_number(value) || yyjson_is_ctn(value);
        return has_numbers && equal(wanted, value, true, work) ? VERDICT_OTHER : VERDICT_NO;
}

static enum verdict test_equals(const struct member *m, yyjson_val *value, struct rules_work *work)
{
        yyjson_val *root = yyjson_doc_get_root(m->value);

        if (type_of(root) != type_of(value))
                return VERDICT_OTHER;
        return compare(root, value, work);
}

static enum verdict test_one_of(const struct member *m, yyjson_val *value, struct rules_work *work)
{
        yyjson_arr_iter iter = yyjson_arr_iter_with(yyjson_doc_get_root(m->value));
        bool has_type = false, is_near = false;
        yyjson_val *item;

        while ((item = yyjson_arr_iter_next(&iter))) {
                enum verdict verdict = compare(item, value, work);
                if (verdict == VERDICT_YES)
                        return VERDICT_YES;
                has_type |= type_of(item) == type_of(value);
                is_near |= verdict == VERDICT_OTHER;
        }
        return has_type && !is_near ? VERDICT_NO : VERDICT_OTHER;
}

/* Programs read a path with these parts in different ways, or as another path. */
static bool is_clean_path(const char *path, size_t n)
{
        if (n == 0 || path[0] != '/' || memchr(path, '\\', n) || memchr(path, '\0', n))
                return false;
        for (size_t i = 0; i < n; i++) {
                if (path[i] != '/')
                        continue;
                size_t rest = n - i - 1;
                const char *part = path + i + 1;
                size_t dots = rest > 0 && part[0] == '.' ? 1 + (rest > 1 && part[1] == '.') : 0;
                if (rest > 0 && part[0] == '/')
                        return false;
                if (dots > 0 && (rest == dots || part[dots] == '/'))
                        return false;
        }
        return true;
}

static enum verdict test_host(const struct member *m, const char *text, size_t n, rules_url_fn *url,
                              struct rules_work *work)
{
        struct network_host host;
        struct rules_url parts = {};

        if (!url) {
                rules_work_fail(work, "there is no parser of URLs");
                return VERDICT_OTHER;
        }
        if (!url(text, n, &parts) || !network_host_parse(parts.host, strlen(parts.host), &host))
                return VERDICT_OTHER;
        for (size_t i = 0; i < m->n; i++) {
                uint16_t port = m->hosts[i].port ? parts.port : NETWORK_PORT_TLS;
                if (network_rules_name(&m->hosts[i], 1, &host, port))
                        return VERDICT_YES;
        }
        return VERDICT_NO;
}

/* Returns 1, 0, or -EAGAIN if the steps are not enough. */
static int match_regex(const struct member *m, const char *text, size_t n, uint32_t steps,
                       struct rules_work *work)
{
        pcre2_match_context *context = pcre2_match_context_create(NULL);
        pcre2_match_data *data = context ? pcre2_match_data_create(1, NULL) : NULL;
        int r = PCRE2_ERROR_NOMEMORY;

        if (data) {
                pcre2_set_match_limit(context, steps);
                pcre2_set_heap_limit(context, RULES_REGEX_KIB);
                r = pcre2_match(m->regex, (PCRE2_SPTR)text, n, 0, PCRE2_NO_JIT, data, context);
        }
        pcre2_match_data_free(data);
        pcre2_match_context_free(context);
        if (r >= 0)
                return 1;
        if (r == PCRE2_ERROR_NOMATCH)
                return 0;
        if (r == PCRE2_ERROR_MATCHLIMIT && steps < RULES_REGEX_STEPS)
                return -EAGAIN;
        rules_work_fail(work, "a regex was not decided within its bound");
        return 0;
}

/* PCRE2 does not say how many steps it took. So a match begins with few of them, and what it was given is charged. */
static enum verdict test_regex(const struct member *m, const char *text, size_t n,
                               struct rules_work *work)
{
        int r = -EAGAIN;

        for (uint32_t steps = 100; r == -EAGAIN && steps <= RULES_REGEX_STEPS; steps *= 10) {
                if (!rules_work_take(work, steps + n / 16))
                        return VERDICT_OTHER;
                r = match_regex(m, text, n, steps, work);
        }
        return yes_or_no(r == 1);
}

static enum verdict test_text(const struct member *m, yyjson_val *value, rules_url_fn *url,
                              struct rules_work *work)
{
        const char *text = yyjson_get_str(value);
        size_t n = yyjson_get_len(value);

        if (!yyjson_is_str(value))
                return VERDICT_OTHER;
        if (m->kind == KIND_PREFIX)
                return yes_or_no(n >= m->n && memcmp(text, m->text, m->n) == 0);
        if (n > RULES_VALUE_MAX) {
                rules_work_fail(work, "a value that a condition reads is longer than 64 KiB");
                return VERDICT_OTHER;
        }
        if (!rules_work_take(work, 1 + n / 64))
                return VERDICT_OTHER;
        if (m->kind == KIND_PATH && !is_clean_path(text, n))
                return VERDICT_OTHER;
        if (m->kind == KIND_REGEX)
                return test_regex(m, text, n, work);
        if (m->kind == KIND_HOST)
                return test_host(m, text, n, url, work);
        return yes_or_no(glob_matches(m->text, text, n, work));
}

static enum verdict test_number(const struct member *m, yyjson_val *value, struct rules_work *work)
{
        yyjson_val *bound = yyjson_doc_get_root(m->value);

        if (!json_is_number(value) || !rules_work_take(work, yyjson_get_len(value) / 8))
                return VERDICT_OTHER;
        int order = decimal_compare(yyjson_get_raw(value), yyjson_get_len(value),
                                    yyjson_get_raw(bound), yyjson_get_len(bound));
        if (m->kind == KIND_MIN ? order >= 0 : order <= 0)
                return VERDICT_YES;
        return are_one_double(value, bound, work) ? VERDICT_OTHER : VERDICT_NO;
}

static enum verdict test_length(const struct member *m, yyjson_val *value, struct rules_work *work)
{
        if (yyjson_is_arr(value))
                return yes_or_no(yyjson_arr_size(value) <= m->n);
        if (!yyjson_is_str(value))
                return VERDICT_OTHER;
        size_t n = yyjson_get_len(value);
        if (n <= m->n)
                return VERDICT_YES;
        if (!rules_work_take(work, n / 64))
                return VERDICT_OTHER;
        return yes_or_no(utf8_count(yyjson_get_str(value), n) <= m->n);
}

static enum verdict test_type(const struct member *m, yyjson_val *value)
{
        unsigned type = type_of(value);

        if (m->type == TYPE_INTEGER)
                return yes_or_no(type == TYPE_NUMBER && json_is_integer(value));
        return yes_or_no(type == m->type);
}

static enum verdict test_not(const struct member *m, yyjson_val *value, rules_url_fn *url,
                             struct rules_work *work)
{
        enum verdict verdict = condition_test(m->not, value, url, work);

        return verdict == VERDICT_YES ? VERDICT_NO : verdict == VERDICT_NO ? VERDICT_YES : verdict;
}

static enum verdict test_member(const struct member *m, yyjson_val *value, rules_url_fn *url,
                                struct rules_work *work)
{
        if (m->kind == KIND_ABSENT)
                return yes_or_no(m->is_absent == !value);
        if (m->kind == KIND_NOT)
                return test_not(m, value, url, work);
        if (!value)
                return VERDICT_MISSING;
        switch (m->kind) {
        case KIND_EQUALS:
                return test_equals(m, value, work);
        case KIND_ONE_OF:
                return test_one_of(m, value, work);
        case KIND_MIN:
        case KIND_MAX:
                return test_number(m, value, work);
        case KIND_MAX_LENGTH:
                return test_length(m, value, work);
        case KIND_TYPE:
                return test_type(m, value);
        default:
                return test_text(m, value, url, work);
        }
}

enum verdict condition_test(const struct condition *condition, yyjson_val *value, rules_url_fn *url,
                            struct rules_work *work)
{
        enum verdict all = VERDICT_YES;

        for (size_t i = 0; i < condition->n; i++) {
                enum verdict verdict = test_member(&condition->members[i], value, url, work);
                if (verdict == VERDICT_MISSING || work->fault)
                        return VERDICT_MISSING;
                if (verdict == VERDICT_NO)
                        all = VERDICT_NO;
                else if (verdict == VERDICT_OTHER && all == VERDICT_YES)
                        all = VERDICT_OTHER;
        }
        return all;
}

/* ---- conditions that cannot hold ---- */

static const struct member *find(const struct condition *condition, enum kind kind)
{
        for (size_t i = 0; i < condition->n; i++)
                if (condition->members[i].kind == kind)
                        return &condition->members[i];
        return NULL;
}

const char *condition_contradiction(const struct condition *condition)
{
        const struct member *min = find(condition, KIND_MIN), *max = find(condition, KIND_MAX);
        const struct member *absent = find(condition, KIND_ABSENT);

        if (absent && absent->is_absent && condition->n > 1)
                return "a value that is absent meets no other condition";
        if (!min || !max)
                return NULL;
        yyjson_val *a = yyjson_doc_get_root(min->value), *b = yyjson_doc_get_root(max->value);
        return decimal_compare(yyjson_get_raw(a), yyjson_get_len(a), yyjson_get_raw(b),
                               yyjson_get_len(b)) > 0
                       ? "min is above max"
                       : NULL;
}
