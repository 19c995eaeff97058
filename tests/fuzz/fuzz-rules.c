/*
 * Rules and a call: {"rules": […], "server", "tool", "arguments", "annotations", "seen", "method"}. Accepted when the rules are.
 * The table must decide as a pass over all rules does, within the bound of a decision.
 */
#include "policy/rules/rules.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/json-out.h"
#include "base/json.h"

enum { TEXTS_MAX = 600 };

static bool read_url(const char *url, size_t n, struct rules_url *ret)
{
        if (n < 8 || memcmp(url, "https://", 8) != 0)
                return false;
        snprintf(ret->host, sizeof(ret->host), "%.*s", (int)(n - 8 < 200 ? n - 8 : 200), url + 8);
        ret->port = 443;
        return true;
}

static uint64_t sent(void *data, const struct rule *rule, enum rules_span span)
{
        return rule->key % 3;
}

/* The plain reading: the first rule that matches. */
static const struct rule *first_of(const struct rules *rules, const struct rules_call *call,
                                   bool *has_fault)
{
        for (size_t i = 0; i < rules_count(rules); i++) {
                const char *fault = NULL;
                size_t when = 0;
                enum rules_miss miss = rules_explain(rules_at(rules, i), call, &when, &fault);
                *has_fault |= miss == RULES_MISS_FAULT;
                assert((fault != NULL) == (miss == RULES_MISS_FAULT));
                assert(miss != RULES_MISS_WHEN || when < rules_at(rules, i)->n_when);
                if (miss == RULES_MATCHES)
                        return rules_at(rules, i);
        }
        return NULL;
}

static void decide(const struct rules *rules, yyjson_val *root)
{
        const char *server = json_string(root, "server", NULL),
                   *tool = json_string(root, "tool", NULL);
        const struct rules_call call = {
                .server = server ? server : "s",
                .tool = tool ? tool : "f",
                .arguments = yyjson_obj_get(root, "arguments"),
                .annotations = yyjson_obj_get(root, "annotations"),
                .is_method = yyjson_is_true(yyjson_obj_get(root, "method")),
                .trusts_hints = yyjson_is_true(yyjson_obj_get(root, "trusts")),
                .is_open = !yyjson_is_false(yyjson_obj_get(root, "open")),
                .seen = yyjson_is_true(yyjson_obj_get(root, "seen")) ? RULES_PRIVATE : 0,
                .url = read_url,
                .sent = sent,
        };
        struct rules_decision decision;
        struct error err = {};
        bool has_fault = false;

        rules_decide(rules, &call, &decision);
        assert(!decision.fault || (decision.effect == RULES_DENY && !decision.rule));
        assert(decision.rule || decision.fault || decision.effect == RULES_ALLOW);
        assert(!decision.rule || decision.effect == decision.rule->effect);
        assert(!decision.rule || rules_can_match(rules, call.server, call.tool));
        const struct rule *first = first_of(rules, &call, &has_fault);
        assert(decision.fault || has_fault || decision.rule == first);
        if (rules_always_deny(rules, call.server, call.tool) && !decision.fault)
                assert(decision.effect == RULES_DENY);
        int r = rules_check_names(rules, call.server, call.tool, call.arguments,
                                  yyjson_obj_get(root, "schema"), &err);
        assert(r >= 0 || error_is_set(&err));
}

static bool make_text(char **ret, yyjson_val *rule, size_t i)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(1024 * 1024);
        struct json_out out = {.to = &b};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "file", "f");
        json_out_int(&out, "line", (int64_t)i);
        json_out_int(&out, "number", (int64_t)i + 1);
        json_out_value(&out, "rule", rule);
        json_out_end(&out, '}');
        *ret = out.error < 0 ? NULL : strndup(buffer_bytes(&b), b.length);
        return *ret;
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        static const struct rules_server servers[] = {{"s", false}, {"t", true}, {"t.u", false}};
        _cleanup_json_ yyjson_doc *doc = NULL;
        char *texts[TEXTS_MAX + 1] = {};
        struct rules *rules = NULL;
        struct error err = {};
        size_t count = 0;

        if (json_parse((const char *)data, n, &doc, &err) < 0)
                return false;
        yyjson_val *root = yyjson_doc_get_root(doc), *rule;
        yyjson_arr_iter iter = yyjson_arr_iter_with(yyjson_obj_get(root, "rules"));
        while (count < TEXTS_MAX && (rule = yyjson_arr_iter_next(&iter)) &&
               make_text(&texts[count], rule, count))
                count++;
        int r = rules_new(texts, servers, ARRAY_SIZE(servers), &rules, &err);
        assert(r >= 0 || error_is_set(&err));
        if (r >= 0)
                decide(rules, root);
        rules_free(rules);
        for (size_t i = 0; i < count; i++)
                free(texts[i]);
        return r >= 0 && yyjson_is_arr(yyjson_obj_get(root, "rules"));
}

FUZZ_TARGET
