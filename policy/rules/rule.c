/* The parser of one rule: a table of keys, each of which may occur once. */
#include "policy/rules/rule.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "policy/did-you-mean.h"
#include "policy/rules/selector.h"

const char *const rules_effect_names[] = {"allow", "ask", "deny", NULL};
const char *const rules_span_names[] = {"cell", "session", "hour", NULL};
const char *const rules_hint_names[] = {"read_only", "destructive", "idempotent", "open_world",
                                        NULL};

enum { COUNT_MAX = 1000 * 1000, CONDITIONS_MAX = 64 * 1024 };

/* The index of a name in a list; -1: it is not one of them. */
static int index_of(yyjson_val *value, const char *const *list)
{
        for (int i = 0; list[i]; i++)
                if (yyjson_equals_str(value, list[i]))
                        return i;
        return -1;
}

/* An unknown or a second key in an object of a rule. */
static int check_key(yyjson_val *object, yyjson_val *name, const char *const *known,
                     const char *where, struct error *err)
{
        const char *text = yyjson_get_str(name);
        const char *meant = did_you_mean(text, known);

        if (yyjson_obj_getn(object, text, yyjson_get_len(name)) != yyjson_obj_iter_get_val(name))
                return error_set(err, EINVAL, "%s\"%.60s\" occurs twice", where, text);
        if (index_of(name, known) >= 0)
                return 0;
        return meant ? error_set(err, EINVAL, "%sunknown key \"%.60s\"; did you mean \"%s\"?",
                                 where, text, meant)
                     : error_set(err, EINVAL, "%sunknown key \"%.60s\"", where, text);
}

/* ---- the values of keys ---- */

static int read_selectors(struct rule *rule, yyjson_val *value, yyjson_val **at, struct error *err)
{
        size_t n = yyjson_is_arr(value) ? yyjson_arr_size(value) : 1;
        const char *effect = rules_effect_names[rule->effect];
        int r = 0;

        if (n < 1 || n > RULE_SELECTORS_MAX)
                return error_set(err, EINVAL, "%s must be a name, or an array of 1 to %d names",
                                 effect, RULE_SELECTORS_MAX);
        rule->selectors = calloc(n + 1, sizeof(char *));
        if (!rule->selectors)
                return -ENOMEM;
        for (size_t i = 0; r >= 0 && i < n; i++) {
                yyjson_val *item = yyjson_is_arr(value) ? yyjson_arr_get(value, i) : value;
                const char *text = yyjson_get_str(item);
                struct error why = {};
                *at = item;
                r = selector_check(text, yyjson_get_len(item), &why);
                if (r < 0)
                        return error_set(err, EINVAL, "%s: \"%.100s\" %s", effect, text ? text : "",
                                         why.text);
                rule->selectors[i] = strdup(text);
                r = rule->selectors[i] ? 0 : -ENOMEM;
        }
        return r;
}

static int read_when(struct rule *rule, yyjson_val *value, yyjson_val **at, struct error *err)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(value);
        yyjson_val *name;
        int r = 0;

        if (!yyjson_is_obj(value) || yyjson_obj_size(value) < 1 ||
            yyjson_obj_size(value) > RULE_WHEN_MAX)
                return error_set(err, EINVAL,
                                 "when must be an object of 1 to %d conditions: {\"/path\": {…}}",
                                 RULE_WHEN_MAX);
        rule->when = calloc(yyjson_obj_size(value), sizeof(*rule->when));
        if (!rule->when)
                return -ENOMEM;
        while ((name = yyjson_obj_iter_next(&iter))) {
                const char *text = yyjson_get_str(name);
                struct rule_when *when = &rule->when[rule->n_when++];
                *at = name;
                if (yyjson_obj_getn(value, text, yyjson_get_len(name)) !=
                    yyjson_obj_iter_get_val(name))
                        return error_set(err, EINVAL, "when: \"%.60s\" occurs twice", text);
                r = pointer_parse(text, yyjson_get_len(name), &when->pointer, err);
                if (r < 0)
                        return error_context(err, "when: the pointer \"%.60s\"", text);
                r = condition_new(yyjson_obj_iter_get_val(name), &when->condition, at, err);
                if (r < 0)
                        return error_context(err, "when: %.60s", text);
                const char *why = condition_contradiction(when->condition);
                if (why)
                        return error_set(err, EINVAL, "when: %.60s: the rule can never match: %s",
                                         text, why);
        }
        return r;
}

static int read_hints(struct rule *rule, yyjson_val *value, yyjson_val **at, struct error *err)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(value);
        yyjson_val *name;

        if (!yyjson_is_obj(value) || yyjson_obj_size(value) == 0)
                return error_set(
                        err, EINVAL,
                        "hints must be an object, as {\"destructive\": true}: read_only, destructive, idempotent, open_world");
        while ((name = yyjson_obj_iter_next(&iter))) {
                *at = name;
                int r = check_key(value, name, rules_hint_names, "hints: ", err);
                if (r < 0)
                        return r;
                if (!yyjson_is_bool(yyjson_obj_iter_get_val(name)))
                        return error_set(err, EINVAL, "hints: %s must be true or false",
                                         yyjson_get_str(name));
                rule->hints[index_of(name, rules_hint_names)] = yyjson_get_bool(
                        yyjson_obj_iter_get_val(name));
        }
        rule->has_hints = true;
        if (rule->hints[HINT_READ_ONLY] == 1 && rule->hints[HINT_DESTRUCTIVE] == 1)
                return error_set(
                        err, EINVAL,
                        "hints: the rule can never match: a read-only tool is not destructive");
        return 0;
}

static int read_after(struct rule *rule, yyjson_val *value, yyjson_val **at, struct error *err)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(value);
        yyjson_val *name;
        int64_t n;

        if (!yyjson_is_obj(value) || yyjson_obj_size(value) == 0)
                return error_set(
                        err, EINVAL,
                        "after must be an object, as {\"session\": 20}: cell, session, hour");
        while ((name = yyjson_obj_iter_next(&iter))) {
                *at = name;
                int r = check_key(value, name, rules_span_names, "after: ", err);
                if (r < 0)
                        return r;
                if (json_int64(yyjson_obj_iter_get_val(name), &n) < 0 || n < 1 || n > COUNT_MAX)
                        return error_set(err, EINVAL, "after: %s must be from 1 to %d",
                                         yyjson_get_str(name), COUNT_MAX);
                rule->after[index_of(name, rules_span_names)] = (uint32_t)n;
        }
        rule->has_after = true;
        return 0;
}

static int read_seen(struct rule *rule, yyjson_val *value, yyjson_val **at, struct error *err)
{
        static const char *const labels[] = {"private", "untrusted", NULL};
        yyjson_arr_iter iter = yyjson_arr_iter_with(value);
        yyjson_val *item;

        if (!yyjson_is_arr(value) || yyjson_arr_size(value) == 0)
                return error_set(err, EINVAL,
                                 "seen must be an array of \"private\" and \"untrusted\"");
        while ((item = yyjson_arr_iter_next(&iter))) {
                int i = index_of(item, labels);
                *at = item;
                if (i < 0)
                        return error_set(err, EINVAL,
                                         "seen: a label is \"private\" or \"untrusted\"");
                rule->seen |= 1u << i;
        }
        return 0;
}

static int read_sends(struct rule *rule, yyjson_val *value, struct error *err)
{
        static const char *const words[] = {"open", "closed", NULL};
        int i = index_of(value, words);

        if (i < 0)
                return error_set(err, EINVAL, "sends must be \"open\" or \"closed\"");
        rule->sends = i == 0 ? RULES_SENDS_OPEN : RULES_SENDS_CLOSED;
        return 0;
}

static int read_vary(struct rule *rule, yyjson_val *value, yyjson_val **at, struct error *err)
{
        yyjson_arr_iter iter = yyjson_arr_iter_with(value);
        yyjson_val *item;
        int r = 0;

        if (!yyjson_is_arr(value) || yyjson_arr_size(value) < 1 ||
            yyjson_arr_size(value) > RULE_VARY_MAX)
                return error_set(err, EINVAL, "vary must be an array of 1 to %d pointers",
                                 RULE_VARY_MAX);
        rule->vary = calloc(yyjson_arr_size(value), sizeof(*rule->vary));
        if (!rule->vary)
                return -ENOMEM;
        while (r >= 0 && (item = yyjson_arr_iter_next(&iter))) {
                *at = item;
                if (!yyjson_is_str(item))
                        return error_set(err, EINVAL, "vary: a pointer is a string");
                r = pointer_parse(yyjson_get_str(item), yyjson_get_len(item),
                                  &rule->vary[rule->n_vary], err);
                if (r < 0)
                        return error_context(err, "vary: the pointer \"%.60s\"",
                                             yyjson_get_str(item));
                rule->n_vary++;
        }
        return r;
}

static int read_why(struct rule *rule, yyjson_val *value, struct error *err)
{
        const char *text = yyjson_get_str(value);
        size_t n = yyjson_get_len(value);

        if (!text || n < 1 || n > RULE_WHY_MAX || strlen(text) != n)
                return error_set(err, EINVAL, "why must be a string of 1 to %d bytes",
                                 RULE_WHY_MAX);
        for (const char *p = text; *p; p++)
                if ((unsigned char)*p < ' ' || *p == 0x7f)
                        return error_set(err, EINVAL, "why must be one line");
        rule->why = strdup(text);
        return rule->why ? 0 : -ENOMEM;
}

static int read_planned(struct rule *rule, yyjson_val *value, struct error *err)
{
        size_t n = 0;

        if (!yyjson_is_obj(value))
                return error_set(err, EINVAL, "planned must be an object: the result in a plan");
        if (json_write(value, &rule->planned, &n) < 0)
                return -ENOMEM;
        return n > RULE_PLANNED_MAX
                       ? error_set(err, EINVAL, "planned is longer than %d bytes", RULE_PLANNED_MAX)
                       : json_check_names(value, NULL, err);
}

/* ---- the rule ---- */

enum rule_key {
        KEY_ALLOW,
        KEY_ASK,
        KEY_DENY,
        KEY_WHEN,
        KEY_HINTS,
        KEY_AFTER,
        KEY_SEEN,
        KEY_SENDS,
        KEY_PLAN,
        KEY_PLANNED,
        KEY_VARY,
        KEY_WHY,
};
static const char *const keys[] = {"allow", "ask",  "deny",    "when", "hints", "after", "seen",
                                   "sends", "plan", "planned", "vary", "why",   NULL};

static int read_key(struct rule *rule, enum rule_key key, yyjson_val *value, yyjson_val **at,
                    struct error *err)
{
        switch (key) {
        case KEY_WHEN:
                return read_when(rule, value, at, err);
        case KEY_HINTS:
                return read_hints(rule, value, at, err);
        case KEY_AFTER:
                return read_after(rule, value, at, err);
        case KEY_SEEN:
                return read_seen(rule, value, at, err);
        case KEY_SENDS:
                return read_sends(rule, value, err);
        case KEY_PLAN:
                rule->plan_run = yyjson_equals_str(value, "run");
                return rule->plan_run ? 0 : error_set(err, EINVAL, "plan must be \"run\"");
        case KEY_PLANNED:
                return read_planned(rule, value, err);
        case KEY_VARY:
                return read_vary(rule, value, at, err);
        case KEY_WHY:
                return read_why(rule, value, err);
        default:
                if (rule->selectors)
                        return error_set(err, EINVAL,
                                         "a rule has one of \"allow\", \"ask\" and \"deny\"");
                rule->effect = (enum rules_effect)key;
                return read_selectors(rule, value, at, err);
        }
}

/* Two rules with the same text of these match the same calls of a tool. */
static int keep_conditions(struct rule *rule, yyjson_val *object)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(CONDITIONS_MAX);
        int r = 0;

        for (enum rule_key key = KEY_WHEN; r >= 0 && key <= KEY_SENDS; key++) {
                yyjson_val *value = yyjson_obj_get(object, keys[key]);
                if (value)
                        r = buffer_printf(&b, "%s%s ", b.length > 0 ? ", " : "", keys[key]);
                if (value && r >= 0)
                        r = json_append(&b, value);
        }
        if (r < 0)
                return r;
        rule->conditions = strndup(b.length > 0 ? buffer_bytes(&b) : "", b.length);
        return rule->conditions ? 0 : -ENOMEM;
}

static uint64_t hash_of(const char *text, size_t n)
{
        uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a: only the owner writes rules */

        for (size_t i = 0; i < n; i++)
                hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
        return hash;
}

static int read_keys(struct rule *rule, yyjson_val *object, yyjson_val **at, struct error *err)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(object);
        _cleanup_free_ char *text = NULL;
        yyjson_val *name;
        size_t n = 0;
        int r = 0;

        while (r >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                *at = name;
                r = check_key(object, name, keys, "", err);
                if (r >= 0)
                        r = read_key(rule, (enum rule_key)index_of(name, keys),
                                     yyjson_obj_iter_get_val(name), at, err);
        }
        if (r < 0)
                return r;
        *at = object;
        if (!rule->selectors)
                return error_set(err, EINVAL, "a rule has one of \"allow\", \"ask\" and \"deny\"");
        r = keep_conditions(rule, object);
        if (r == -EMSGSIZE)
                return error_set(err, EINVAL, "the conditions are longer than 64 KiB");
        if (r >= 0)
                r = json_write(object, &text, &n);
        if (r >= 0)
                rule->key = hash_of(text, n);
        return r;
}

int rule_parse(yyjson_val *object, struct rule *ret, yyjson_val **at, struct error *err)
{
        struct rule rule = {.hints = {-1, -1, -1, -1}};

        *at = object;
        if (!yyjson_is_obj(object))
                return error_set(err, EINVAL,
                                 "must be an object, as {\"deny\": \"files.delete_*\"}");
        int r = read_keys(&rule, object, at, err);
        if (r < 0) {
                rule_done(&rule);
                return r == -ENOMEM ? error_errno(err, ENOMEM, "rule") : -EINVAL;
        }
        *ret = rule;
        return 0;
}

void rule_done(struct rule *rule)
{
        for (char **s = rule->selectors; s && *s; s++)
                free(*s);
        for (size_t i = 0; i < rule->n_when; i++) {
                pointer_done(&rule->when[i].pointer);
                condition_free(rule->when[i].condition);
        }
        for (size_t i = 0; i < rule->n_vary; i++)
                pointer_done(&rule->vary[i]);
        free(rule->file);
        free(rule->selectors);
        free(rule->when);
        free(rule->vary);
        free(rule->planned);
        free(rule->why);
        free(rule->conditions);
        *rule = (struct rule){};
}
