/* Decisions of the rules about calls that are not made. */
#include "supervisor/session/calls/decisions.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/json-out.h"
#include "base/json.h"
#include "policy/rules/labels.h"
#include "policy/rules/rules.h"
#include "supervisor/trust/url.h"

enum { ANSWER_MAX = 64 * 1024, PLACE_SIZE = 256 };

/* The labels that results of earlier calls would have given: those that the session does not have yet. */
static unsigned read_seen(yyjson_val *names)
{
        unsigned bits = 0;
        size_t i, n;
        yyjson_val *name;

        yyjson_arr_foreach (names, i, n, name)
                bits |= label_find(yyjson_get_str(name));
        return bits;
}

/* The call as the rules get it, without counts: those of "after" are as if nothing had been sent. *returns: the labels of its result. */
static struct rules_call describe(const struct session *session, yyjson_val *call,
                                  unsigned *returns)
{
        const struct tool_provider *tools = &session->context->tools;
        struct tool_description description = {};
        struct rules_call ret = {
                .server = json_string(call, "server", NULL),
                .tool = json_string(call, "tool", NULL),
                .arguments = yyjson_obj_get(call, "arguments"),
                .seen = session->labels.seen | read_seen(yyjson_obj_get(call, "seen")),
                .url = trust_read_url,
        };

        if (tools->describe && ret.server && ret.tool)
                tools->describe(tools->data, ret.server, ret.tool, &description);
        ret.annotations = yyjson_obj_get(description.tool, "annotations");
        ret.trusts_hints = description.trusts_hints;
        const struct labels labels = labels_of(description.labels, ret.tool ? ret.tool : "",
                                               ret.annotations);
        ret.is_open = labels.is_open;
        *returns = labels.returns;
        return ret;
}

static void put_returns(struct json_out *out, unsigned returns)
{
        json_out_begin(out, "returns", '[');
        for (unsigned bit = 0; label_names[bit]; bit++)
                if (returns >> bit & 1)
                        json_out_text(out, NULL, label_names[bit]);
        json_out_end(out, ']');
}

static void put_decision(struct json_out *out, const struct rules *rules,
                         const struct rules_call *call, unsigned returns)
{
        struct rules_decision decision = {};
        char place[PLACE_SIZE];
        unsigned effects = 1u << RULES_ALLOW;

        if (rules && call->arguments) {
                rules_decide(rules, call, &decision);
                effects = 1u << decision.effect;
        } else if (rules) {
                effects = rules_effects(rules, call);
        }
        json_out_begin(out, NULL, '{');
        json_out_begin(out, "effects", '[');
        for (unsigned effect = 0; effect < RULES_EFFECTS; effect++)
                if (effects >> effect & 1)
                        json_out_text(out, NULL, rules_effect_names[effect]);
        json_out_end(out, ']');
        if (decision.rule) {
                rule_place(decision.rule, place, sizeof(place));
                json_out_text(out, "rule", place);
                if (decision.rule->why)
                        json_out_text(out, "why", decision.rule->why);
        } else if (decision.fault) {
                json_out_text(out, "why", decision.fault);
        }
        if (rules && rules_use_labels(rules))
                put_returns(out, returns);
        json_out_end(out, '}');
}

static bool is_call(const struct rules_call *call)
{
        return call->server && call->tool && (!call->arguments || yyjson_is_obj(call->arguments));
}

int calls_on_rules(struct session *session, uint64_t number, yyjson_val *root, struct error *err)
{
        const struct rules *rules = session->rights ? session->rights->compiled_rules : NULL;
        yyjson_val *calls = yyjson_obj_get(root, "calls"), *item;
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(ANSWER_MAX);
        struct json_out out = {.to = &b};
        size_t i, n;

        if (!yyjson_is_arr(calls) || yyjson_arr_size(calls) > DECISIONS_MAX)
                return error_set(err, EBADMSG, "QUERY about rules without a list of calls");
        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "calls", '[');
        yyjson_arr_foreach (calls, i, n, item) {
                unsigned returns = 0;
                const struct rules_call call = describe(session, item, &returns);
                if (!is_call(&call))
                        return error_set(err, EBADMSG,
                                         "QUERY about rules with something that is not a call");
                put_decision(&out, rules, &call, returns);
        }
        json_out_end(&out, ']');
        json_out_end(&out, '}');
        if (out.error < 0 ||
            answer_result(&session->channel, number, buffer_bytes(&b), b.length) == -ENOMEM)
                answer_refuse(&session->channel, number, "no memory");
        return 0;
}
