/*
 * The table of the rules of a profile.
 *
 * Selectors without a * are sorted by name, the others stand in the order of the rules. A call merges the rules of its
 * name with those of the second list that match it, in the order of the rules.
 */
#include "policy/rules/rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "policy/rules/names.h"
#include "policy/rules/selector.h"
#include "policy/rules/server-names.h"

struct entry {
        const char *selector;
        size_t rule;
};

struct rules {
        struct rule *items;
        size_t n;
        struct entry *exact; /* by name, then by rule */
        size_t n_exact;
        struct entry *wild; /* by rule */
        size_t n_wild;
        bool has_after;
        bool uses_labels; /* a rule has "seen" */
};

/* ---- the table ---- */

static int compare_entries(const void *a, const void *b)
{
        const struct entry *x = a, *y = b;
        int order = strcmp(x->selector, y->selector);

        return order != 0 ? order : x->rule < y->rule ? -1 : x->rule > y->rule;
}

static int build_table(struct rules *rules)
{
        size_t n = 0;

        for (size_t i = 0; i < rules->n; i++)
                for (char **s = rules->items[i].selectors; *s; s++)
                        n++;
        rules->exact = calloc(n + 1, sizeof(struct entry));
        rules->wild = calloc(n + 1, sizeof(struct entry));
        if (!rules->exact || !rules->wild)
                return -ENOMEM;
        for (size_t i = 0; i < rules->n; i++) {
                for (char **s = rules->items[i].selectors; *s; s++) {
                        struct entry entry = {*s, i};
                        if (strchr(*s, '*'))
                                rules->wild[rules->n_wild++] = entry;
                        else
                                rules->exact[rules->n_exact++] = entry;
                }
                rules->has_after |= rules->items[i].has_after;
        }
        if (rules->n_exact > 0)
                qsort(rules->exact, rules->n_exact, sizeof(struct entry), compare_entries);
        return 0;
}

/* Goes through the rules of one name, in order. */
struct candidates {
        const struct rules *rules;
        const char *name;
        size_t exact, wild;
        size_t next; /* no rule before this one */
};

static bool begin(const struct rules *rules, const char *server, const char *tool,
                  char name[RULES_NAME_MAX + 1], struct candidates *ret)
{
        size_t low = 0, high = rules->n_exact;

        int n = snprintf(name, RULES_NAME_MAX + 1, "%s.%s", server, tool);
        if (n < 0 || n > RULES_NAME_MAX)
                return false;
        while (low < high) {
                size_t middle = (low + high) / 2;
                if (strcmp(rules->exact[middle].selector, name) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        *ret = (struct candidates){.rules = rules, .name = name, .exact = low};
        return true;
}

/* The next rule that has a selector for the name, or NULL. */
static const struct rule *next(struct candidates *c)
{
        const struct rules *rules = c->rules;
        size_t exact = SIZE_MAX;

        while (c->exact < rules->n_exact && rules->exact[c->exact].rule < c->next &&
               strcmp(rules->exact[c->exact].selector, c->name) == 0)
                c->exact++;
        if (c->exact < rules->n_exact && strcmp(rules->exact[c->exact].selector, c->name) == 0)
                exact = rules->exact[c->exact].rule;
        while (c->wild < rules->n_wild && rules->wild[c->wild].rule < exact &&
               (rules->wild[c->wild].rule < c->next ||
                !selector_matches(rules->wild[c->wild].selector, c->name)))
                c->wild++;
        size_t wild = c->wild < rules->n_wild ? rules->wild[c->wild].rule : SIZE_MAX;
        size_t found = wild < exact ? wild : exact;
        if (found == SIZE_MAX)
                return NULL;
        c->next = found + 1;
        return &rules->items[found];
}

/* ---- one rule ---- */

static bool hint_of(yyjson_val *annotations, const char *name, bool otherwise)
{
        yyjson_val *value = yyjson_obj_get(annotations, name);

        return yyjson_is_bool(value) ? yyjson_get_bool(value) : otherwise;
}

static bool hints_match(const struct rule *rule, const struct rules_call *call)
{
        bool is_read_only = call->is_method || hint_of(call->annotations, "readOnlyHint", false);
        const bool hints[RULES_HINTS] = {
                [HINT_READ_ONLY] = is_read_only,
                [HINT_DESTRUCTIVE] = !is_read_only &&
                                     hint_of(call->annotations, "destructiveHint", true),
                [HINT_IDEMPOTENT] = hint_of(call->annotations, "idempotentHint", false),
                [HINT_OPEN_WORLD] = hint_of(call->annotations, "openWorldHint", true),
        };

        for (size_t i = 0; i < RULES_HINTS; i++)
                if (rule->hints[i] >= 0 && rule->hints[i] != hints[i])
                        return false;
        return !call->is_network;
}

/* Of all values that a pointer leads to. */
struct test {
        const struct rule *rule;
        const struct condition *condition;
        rules_url_fn *url;
        struct rules_work *work;
        bool holds;
};

/* A rule that allows needs all of them, another one any. */
static bool test_value(void *data, yyjson_val *value, bool is_other)
{
        struct test *test = data;
        enum verdict verdict = is_other ? VERDICT_OTHER
                                        : condition_test(test->condition, value, test->url,
                                                         test->work);

        if (test->work->fault)
                return false;
        if (test->rule->effect == RULES_ALLOW)
                return test->holds = verdict == VERDICT_YES;
        test->holds |= verdict == VERDICT_YES || verdict == VERDICT_OTHER;
        return !test->holds;
}

static bool when_holds(const struct rule *rule, const struct rule_when *when,
                       const struct rules_call *call, struct rules_work *work)
{
        struct test test = {rule, when->condition, call->url, work, false};

        pointer_walk(&when->pointer, call->arguments, work, test_value, &test);
        return test.holds && !work->fault;
}

/* Of a rule what does not depend on the arguments, the labels and the counts. */
static enum rules_miss cover_tool(const struct rule *rule, const struct rules_call *call)
{
        if (rule->has_hints && rule->effect == RULES_ALLOW && !call->trusts_hints)
                return RULES_MISS_TRUST;
        if (rule->has_hints && !hints_match(rule, call))
                return RULES_MISS_HINTS;
        if (rule->sends != RULES_SENDS_ANY && (rule->sends == RULES_SENDS_OPEN) != call->is_open)
                return RULES_MISS_SENDS;
        return RULES_MATCHES;
}

/* Whether the rule covers the call; its "after" is not regarded. */
static enum rules_miss cover(const struct rule *rule, const struct rules_call *call, size_t *when,
                             struct rules_work *work)
{
        enum rules_miss miss = cover_tool(rule, call);

        if (miss != RULES_MATCHES)
                return miss;
        if ((rule->seen & call->seen) != rule->seen)
                return RULES_MISS_SEEN;
        for (*when = 0; *when < rule->n_when; (*when)++) {
                bool holds = when_holds(rule, &rule->when[*when], call, work);
                if (work->fault)
                        return RULES_MISS_FAULT;
                if (!holds)
                        return RULES_MISS_WHEN;
        }
        return RULES_MATCHES;
}

static bool after_holds(const struct rule *rule, const struct rules_call *call)
{
        if (!rule->has_after)
                return true;
        for (enum rules_span span = 0; call->sent && span < RULES_SPANS; span++)
                if (rule->after[span] > 0 &&
                    call->sent(call->data, rule, span) >= rule->after[span])
                        return true;
        return false;
}

enum rules_miss rules_explain(const struct rule *rule, const struct rules_call *call, size_t *when,
                              const char **fault)
{
        struct rules_work work = {.left = RULES_WORK};
        char name[RULES_NAME_MAX + 1];
        bool is_named = false;

        int n = snprintf(name, sizeof(name), "%s.%s", call->server, call->tool);
        for (char **s = rule->selectors; n >= 0 && n <= RULES_NAME_MAX && *s; s++)
                is_named |= selector_matches(*s, name);
        if (!is_named)
                return RULES_MISS_SELECTOR;
        enum rules_miss miss = cover(rule, call, when, &work);
        *fault = work.fault;
        return miss == RULES_MATCHES && !after_holds(rule, call) ? RULES_MISS_AFTER : miss;
}

/* ---- decisions ---- */

static void deny_for(struct rules_decision *decision, const char *fault)
{
        *decision = (struct rules_decision){.effect = RULES_DENY, .fault = fault};
}

void rules_decide(const struct rules *rules, const struct rules_call *call,
                  struct rules_decision *ret)
{
        struct rules_work work = {.left = RULES_WORK};
        char name[RULES_NAME_MAX + 1];
        const struct rule *rule;
        struct candidates c;
        size_t when;

        *ret = (struct rules_decision){};
        if (!begin(rules, call->server, call->tool, name, &c)) {
                deny_for(ret, "the name of the tool is too long");
                return;
        }
        while ((rule = next(&c))) {
                /* After the decision only rules that count calls matter. */
                if (ret->rule && !rule->has_after)
                        continue;
                enum rules_miss miss = cover(rule, call, &when, &work);
                if (miss == RULES_MISS_FAULT) {
                        deny_for(ret, work.fault);
                        return;
                }
                if (miss != RULES_MATCHES)
                        continue;
                if (rule->has_after) {
                        size_t i = (size_t)(rule - rules->items);
                        ret->counted[i / 64] |= UINT64_C(1) << (i % 64);
                        ret->is_counted = true;
                }
                if (!ret->rule && after_holds(rule, call)) {
                        ret->rule = rule;
                        ret->effect = rule->effect;
                }
                if (ret->rule && !rules->has_after)
                        return;
        }
}

bool rule_is_of_network(const struct rule *rule)
{
        for (char **s = rule->selectors; *s; s++)
                if (selector_matches(*s, RULES_NETWORK))
                        return !rule->has_hints && !(rule->effect == RULES_ALLOW && rule->seen);
        return false;
}

bool rules_can_match(const struct rules *rules, const char *server, const char *tool)
{
        char name[RULES_NAME_MAX + 1];
        struct candidates c;

        return !begin(rules, server, tool, name, &c) || next(&c);
}

bool rules_always_deny(const struct rules *rules, const char *server, const char *tool)
{
        char name[RULES_NAME_MAX + 1];
        struct candidates c;

        if (!begin(rules, server, tool, name, &c))
                return true;
        const struct rule *rule = next(&c);
        return rule && rule->effect == RULES_DENY && *rule->conditions == '\0';
}

unsigned rules_effects(const struct rules *rules, const struct rules_call *call)
{
        char name[RULES_NAME_MAX + 1];
        const struct rule *rule;
        struct candidates c;
        unsigned effects = 0;

        if (!begin(rules, call->server, call->tool, name, &c))
                return 1u << RULES_DENY;
        while ((rule = next(&c))) {
                if (cover_tool(rule, call) != RULES_MATCHES)
                        continue;
                effects |= 1u << rule->effect;
                if (rule->n_when == 0 && !rule->seen && !rule->has_after)
                        return effects;
        }
        return effects | 1u << RULES_ALLOW;
}

int rules_check_names(const struct rules *rules, const char *server, const char *tool,
                      yyjson_val *arguments, yyjson_val *schema, struct error *err)
{
        struct rules_work work = {.left = RULES_WORK};
        char name[RULES_NAME_MAX + 1];
        const struct rule *rule;
        struct candidates c;
        bool is_named = false;
        int r = 0;

        if (!arguments || !begin(rules, server, tool, name, &c))
                return 0; /* a name that is too long is denied */
        while (r >= 0 && (rule = next(&c))) {
                is_named |= rule->n_when > 0;
                for (size_t i = 0; r >= 0 && i < rule->n_when; i++)
                        r = names_check_pointer(&rule->when[i].pointer, arguments, &work, err);
        }
        if (r >= 0 && is_named)
                r = names_check_pairs(arguments, &work, err);
        if (r >= 0 && is_named)
                r = names_check_schema(schema, arguments, &work, err);
        return r;
}

void rule_place(const struct rule *rule, char *to, size_t n)
{
        const char *slash = strrchr(rule->file, '/');

        snprintf(to, n, "%.200s line %zu", slash ? slash + 1 : rule->file, rule->line);
}

size_t rules_count(const struct rules *rules)
{
        return rules ? rules->n : 0;
}

const struct rule *rules_at(const struct rules *rules, size_t index)
{
        return &rules->items[index];
}

/* ---- rules that cannot be meant ---- */

static int refuse(const struct rule *rule, struct error *err)
{
        error_context(err, "%s: line %zu: rule %zu", rule->file, rule->line, rule->number);
        return -EINVAL;
}

/* Whether each name of the second rule is one of the first. */
static bool has_all_names(const struct rule *a, const struct rule *b)
{
        for (char **name = b->selectors; *name; name++) {
                char **s = a->selectors;
                while (*s && !selector_matches(*s, *name))
                        s++;
                if (!*s)
                        return false;
        }
        return true;
}

/* An allow is stricter about values than an ask or deny with the same words. */
static bool hides(const struct rule *a, const struct rule *b)
{
        bool is_wider = *a->conditions == '\0' ||
                        (strcmp(a->conditions, b->conditions) == 0 &&
                         (a->effect != RULES_ALLOW || b->effect == RULES_ALLOW));

        return is_wider && has_all_names(a, b);
}

static int check_hidden(const struct rules *rules, size_t i, struct error *err)
{
        const struct rule *rule = &rules->items[i];
        char place[256];

        for (size_t j = 0; j < i; j++) {
                const struct rule *earlier = &rules->items[j];
                /* A rule of a profile may hide one of the top level, which other profiles have too. */
                if (earlier->is_own != rule->is_own || !hides(earlier, rule))
                        continue;
                rule_place(earlier, place, sizeof(place));
                error_set(err, EINVAL,
                          "the rule can never match: rule %zu (%s) comes first and has its names",
                          earlier->number, place);
                return refuse(rule, err);
        }
        return 0;
}

/* Rules that the process with the network cannot decide are refused, and not left out. */
static int check_network(const struct rule *rule, const char *selector, struct error *err)
{
        if (!selector_matches(selector, RULES_NETWORK) &&
            !selector_matches(selector, RULES_REQUEST))
                return error_set(err, EINVAL,
                                 "\"%s\" can never match: there are \"" RULES_NETWORK
                                 "\" and \"" RULES_REQUEST "\"",
                                 selector);
        if (rule->has_hints || rule->has_after)
                return error_set(err, EINVAL, "\"%s\" has neither \"hints\" nor \"after\"",
                                 selector);
        return 0;
}

static int check_servers(const struct rule *rule, const char *selector,
                         const struct rules_server *servers, size_t n, struct error *err)
{
        const char *names[SERVER_NAMES_MAX + 1] = {}, *named = NULL;
        bool is_known = false;

        if (selector[0] == '@')
                return check_network(rule, selector, err);
        for (size_t i = 0; i < n; i++) {
                if (i < SERVER_NAMES_MAX)
                        names[i] = servers[i].name;
                if (!selector_can_match_server(selector, servers[i].name))
                        continue;
                is_known = true;
                if (rule->effect == RULES_ALLOW && rule->has_hints && !servers[i].trusts_hints)
                        return error_set(
                                err, EINVAL,
                                "\"%s\": an allow by hints takes the word of server \"%s\": set its \"trust_hints\": true, or name the tools",
                                selector, servers[i].name);
                if (!selector_names_server(selector, servers[i].name))
                        continue;
                if (named && strcmp(named, servers[i].name) != 0 && rule->effect == RULES_ALLOW)
                        return error_set(
                                err, EINVAL,
                                "\"%s\" can mean server \"%s\" and server \"%s\": rename one of them",
                                selector, named, servers[i].name);
                named = servers[i].name;
        }
        if (is_known || selector[0] == '*')
                return 0;
        char server[SELECTOR_MAX + 1];
        snprintf(server, sizeof(server), "%.*s", (int)strcspn(selector, "."), selector);
        char what[SELECTOR_MAX + 64];
        snprintf(what, sizeof(what), "\"%s\" can never match: ", selector);
        return server_names_unknown(what, server, names, err);
}

static int check_rules(const struct rules *rules, const struct rules_server *servers, size_t n,
                       struct error *err)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < rules->n; i++) {
                const struct rule *rule = &rules->items[i];
                for (char **s = rule->selectors; r >= 0 && *s; s++)
                        r = check_servers(rule, *s, servers, n, err);
                r = r < 0 ? refuse(rule, err) : check_hidden(rules, i, err);
        }
        return r;
}

/* ---- life ---- */

static int add_rule(struct rules *rules, const char *text, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct rule *rule = &rules->items[rules->n];
        int64_t line = 0, number = 0;
        yyjson_val *at;

        int r = json_parse(text, strlen(text), &doc, err);
        if (r < 0)
                return r;
        yyjson_val *root = yyjson_doc_get_root(doc);
        const char *file = json_string(root, "file", NULL);
        json_int64(yyjson_obj_get(root, "line"), &line);
        json_int64(yyjson_obj_get(root, "number"), &number);
        r = rule_parse(yyjson_obj_get(root, "rule"), rule, &at, err);
        if (r < 0)
                return error_context(err, "%s: line %lld", file ? file : "", (long long)line);
        rules->n++;
        rule->file = strdup(file ? file : "");
        rule->line = (size_t)line;
        rule->number = (size_t)number;
        rule->is_own = yyjson_is_true(yyjson_obj_get(root, "own"));
        return rule->file ? 0 : error_errno(err, ENOMEM, "rules");
}

int rules_new(char *const *texts, const struct rules_server *servers, size_t n_servers,
              struct rules **ret, struct error *err)
{
        struct rules *rules = calloc(1, sizeof(*rules));
        size_t n = 0;
        int r = 0;

        while (texts[n])
                n++;
        if (n > RULES_MAX)
                r = error_set(err, E2BIG, "rules: a profile has more than %d, with the top level's",
                              RULES_MAX);
        if (rules && r >= 0)
                rules->items = calloc(n + 1, sizeof(struct rule));
        if (r >= 0 && (!rules || !rules->items))
                r = error_errno(err, ENOMEM, "rules");
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = add_rule(rules, texts[i], err);
        if (r >= 0 && build_table(rules) < 0)
                r = error_errno(err, ENOMEM, "rules");
        if (r >= 0 && servers)
                r = check_rules(rules, servers, n_servers, err);
        for (size_t i = 0; r >= 0 && i < n; i++)
                rules->uses_labels |= rules->items[i].seen != 0;
        if (r < 0)
                rules_free(rules);
        else
                *ret = rules;
        return r;
}

bool rules_use_labels(const struct rules *rules)
{
        return rules->uses_labels;
}

struct rules *rules_free(struct rules *rules)
{
        for (size_t i = 0; rules && i < rules->n; i++)
                rule_done(&rules->items[i]);
        if (rules) {
                free(rules->items);
                free(rules->exact);
                free(rules->wild);
        }
        free(rules);
        return NULL;
}
