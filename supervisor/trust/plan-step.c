/* The step of a call of a cell that has a plan. */
#include "supervisor/trust/plan-step.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/utf8.h"
#include "supervisor/trust/ask.h"
#include "supervisor/trust/plans/blank.h"
#include "supervisor/trust/plans/plan.h"

static const struct rule *find_rule(const struct trust_call *trust)
{
        const struct rules *rules = trust->session->rights->compiled_rules;

        for (size_t i = 0; rules && trust->rule_key != 0 && i < rules_count(rules); i++) {
                if (rules_at(rules, i)->key == trust->rule_key)
                        return rules_at(rules, i);
        }
        return NULL;
}

static bool is_read(const struct trust_call *trust, const struct rule *rule,
                    const struct tool_description *description)
{
        yyjson_val *hints = yyjson_obj_get(description->tool, "annotations");

        return trust->request.method || (rule && rule->plan_run) ||
               (description->trusts_hints && yyjson_is_true(yyjson_obj_get(hints, "readOnlyHint")));
}

/* The line at which the code has used a result that stood for another one, as the worker says. It is a hint for the person: code
 * can hide it. */
static uint32_t read_unsure(const struct trust_call *trust)
{
        int64_t line = 0;

        json_int64(yyjson_obj_get(yyjson_doc_get_root(trust->document), "unsure"), &line);
        return line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
}

/* Fills in what the plan compares and shows; json is the caller's. */
static int describe(const struct trust_call *trust, char **json, struct plan_call *ret)
{
        const struct tool_description description = trust_describe(trust);
        const struct tool_request *request = &trust->request;
        const struct rule *rule = find_rule(trust);
        bool reads = is_read(trust, rule, &description);

        *ret = (struct plan_call){
                .kind = trust->effect == RULES_ASK ? PLAN_ASKS
                        : reads                    ? PLAN_READS
                                                   : PLAN_SENDS,
                .number = trust->number,
                .server = request->server,
                .tool = request->method ? request->method : request->tool,
                .arguments = request->arguments,
                .vary = rule ? rule->vary : NULL,
                .n_vary = rule ? rule->n_vary : 0,
                .definition = trust_definition(trust),
                .rule = trust->rule,
                .why = trust->why,
                .unsure = read_unsure(trust),
        };
        int r = json_write(request->arguments, json, &ret->n);
        ret->json = *json;
        return r;
}

static enum trust_result refuse(struct trust_call *trust, const char *why)
{
        trust_set_refusal(trust, "ToolDenied", trust->effect == RULES_ASK, "%s", why);
        return TRUST_REFUSED;
}

/* ---- in the copy ---- */

static enum trust_result answer_unsent(struct trust_call *trust)
{
        const struct tool_description description = trust_describe(trust);
        const struct rule *rule = find_rule(trust);

        if (blank_result(description.tool, rule ? rule->planned : NULL, &trust->answer) < 0)
                return refuse(trust, "no memory for the result of a plan");
        trust->is_blank = !rule || !rule->planned;
        trust_count_planned(trust);
        return TRUST_ANSWERED;
}

static enum trust_result fill(struct trust_call *trust, struct plan *plan,
                              const struct plan_call *call)
{
        struct error why = {};
        size_t row;

        if (plan_add(plan, call, &row, &why) < 0)
                return refuse(trust, why.text);
        if (call->kind != PLAN_READS)
                return answer_unsent(trust);
        trust->plan_row = row + 1;
        return TRUST_GO_ON;
}

/* ---- in the session ---- */

static enum trust_result follow(struct trust_call *trust, struct plan *plan,
                                const struct plan_call *call)
{
        char difference[PLAN_DIFFERENCE_MAX], why[sizeof(trust->why)];
        const struct plan_row *row;

        switch (plan_take(plan, call, &row)) {
        case PLAN_ALLOWED:
                trust->is_planned = true;
                return TRUST_GO_ON;
        case PLAN_REFUSED:
                return refuse(trust, "a person answered no to this call of the plan");
        case PLAN_ANSWERED:
                if (buffer_append(&trust->answer, row->result, row->n_result) < 0)
                        return refuse(trust, "no memory for a result of the plan");
                return TRUST_ANSWERED;
        default:
                break;
        }
        if (call->kind == PLAN_READS)
                return TRUST_GO_ON;
        if (call->kind == PLAN_SENDS) {
                trust->is_outside_plan = true;
                trust->is_proposable = false;
                trust->effect = RULES_ASK;
        }
        plan_note_other(plan);
        plan_describe_difference(plan, call, difference);
        memcpy(why, trust->why, sizeof(why));
        snprintf(trust->why, sizeof(trust->why), "not in the plan: %s%s%s", difference,
                 *why ? "; " : "", why);
        utf8_trim(trust->why);
        return TRUST_GO_ON;
}

enum trust_result trust_plan(struct trust_call *trust)
{
        const struct cell *cell = session_current(trust->session);
        struct plan *plan = cell ? cell->request.plan : NULL;
        _cleanup_free_ char *json = NULL;
        struct plan_call call;

        /* Tasks and threads of the copy before its cell begins and after it has ended. */
        if (!plan && trust->session->is_plans_copy)
                return refuse(trust, "its code ran before or after that of the plan");
        if (!plan)
                return TRUST_GO_ON;
        buffer_init(&trust->answer, PLAN_BYTES_MAX);
        if (describe(trust, &json, &call) < 0)
                return refuse(trust, "no memory for the plan");
        return cell->request.is_planning ? fill(trust, plan, &call) : follow(trust, plan, &call);
}
