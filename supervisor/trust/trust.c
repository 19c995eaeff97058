/* The table of the steps, and the steps that take no time. */
#include "supervisor/trust/trust.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/utf8.h"
#include "policy/rules/labels.h"
#include "supervisor/trust/url.h"

struct whole_call {
        struct trust_call trust; /* first */
        const struct trust_owner *owner;
        bool is_begun; /* trust_begin() has returned */
};

static const char *name_of(const struct tool_request *request)
{
        return request->method ? request->method : request->tool;
}

void trust_set_refusal(struct trust_call *trust, const char *kind, bool is_by_rule,
                       const char *format, ...)
{
        struct trust_refusal *refusal = &trust->refusal;
        va_list args;

        is_by_rule = is_by_rule && *trust->rule;

        *refusal = (struct trust_refusal){.kind = kind,
                                          .rule = is_by_rule ? trust->rule : NULL,
                                          .why = is_by_rule && *trust->why ? trust->why : NULL};
        va_start(args, format);
        vsnprintf(refusal->reason, sizeof(refusal->reason), format, args);
        va_end(args);
        utf8_trim(refusal->reason);
        error_set(&refusal->message, EPERM, "%.60s.%.60s was not sent: %s%s%s",
                  trust->request.server, name_of(&trust->request), is_by_rule ? trust->rule : "",
                  is_by_rule ? ": " : "", refusal->reason);
}

/* ---- form ---- */

static yyjson_val *schema_of(const struct tool_description *description)
{
        return yyjson_obj_get(description->tool, "inputSchema");
}

static struct tool_description describe_tool(const struct session *session,
                                             const struct tool_request *request)
{
        const struct tool_provider *tools = &session->context->tools;
        struct tool_description ret = {};

        if (tools->describe)
                tools->describe(tools->data, request->server, request->tool, &ret);
        return ret;
}

struct tool_description trust_describe(const struct trust_call *trust)
{
        return describe_tool(trust->session, &trust->request);
}

/* Equal names were refused before, in each call. */
enum trust_result trust_check_form(struct trust_call *trust)
{
        const struct tool_description description = trust_describe(trust);
        const struct rules *rules = trust->session->rights->compiled_rules;
        struct error why = {};

        if (!rules)
                return TRUST_GO_ON;
        int r = rules_check_names(rules, trust->request.server, name_of(&trust->request),
                                  trust->request.arguments, schema_of(&description), &why);
        if (r >= 0)
                return TRUST_GO_ON;
        const char *kind = r == -ENOTUNIQ ? "ToolArgumentError"
                           : r == -E2BIG  ? "ToolDenied"
                                          : "ToolError";
        trust_set_refusal(trust, kind, false, "%s", why.text);
        return TRUST_REFUSED;
}

/* ---- labels ---- */

static struct labels find_labels(const struct tool_request *request,
                                 const struct tool_description *description)
{
        return labels_of(description->labels, name_of(request),
                         yyjson_obj_get(description->tool, "annotations"));
}

char *trust_name_result(const struct session *session, const struct tool_request *request,
                        unsigned *bits)
{
        const struct config_profile *rights = session->rights;
        char *name = NULL;

        *bits = RULES_PRIVATE | RULES_UNTRUSTED;
        if (!rights || !rights->compiled_rules || !rules_use_labels(rights->compiled_rules))
                return NULL;
        const struct tool_description description = describe_tool(session, request);
        *bits = find_labels(request, &description).returns;
        if (*bits && asprintf(&name, "%s.%s", request->server, name_of(request)) < 0)
                name = NULL;
        return name;
}

/* A rule with "seen": its reason also says what the session has seen. */
static void append_seen(struct trust_call *trust, unsigned seen)
{
        size_t n = strlen(trust->why), rest = sizeof(trust->why) - n;
        char text[600];

        session_labels_describe(&trust->session->labels, seen, text, sizeof(text));
        snprintf(trust->why + n, rest, "%sthe session has seen %s", n ? "; " : "", text);
        utf8_trim(trust->why);
}

/* ---- rules ---- */

static uint64_t count_of(void *data, const struct rule *rule, enum rules_span span)
{
        const struct trust_call *trust = data;
        const struct session *s = trust->session;

        switch (span) {
        case RULES_CELL:
                return call_counts_in_cell(&s->sent, rule->key, trust->cell);
        case RULES_SESSION:
                return call_counts_in_all(&s->sent, rule->key);
        default:
                return call_counts_in_hour(&s->principal->sent, rule->key, clock_us());
        }
}

/* All rules that count the call have a place for it before it is sent. */
static int reserve_counts(struct trust_call *trust, const struct rules *rules,
                          const struct rules_decision *decision)
{
        struct session *s = trust->session;
        int r = 0;

        free(trust->counted);
        trust->counted = NULL;
        trust->n_counted = 0;
        if (!decision->is_counted)
                return 0;
        trust->counted = calloc(rules_count(rules), sizeof(uint64_t));
        if (!trust->counted)
                return -ENOMEM;
        for (size_t i = 0; r >= 0 && i < rules_count(rules); i++) {
                if (!(decision->counted[i / 64] >> (i % 64) & 1))
                        continue;
                uint64_t key = rules_at(rules, i)->key;
                trust->counted[trust->n_counted++] = key;
                r = call_counts_reserve(&s->sent, key);
                if (r >= 0)
                        r = call_counts_reserve(&s->principal->sent, key);
        }
        return r;
}

static void decide(struct trust_call *trust, const struct rules *rules, struct rules_decision *ret)
{
        const struct tool_description description = trust_describe(trust);
        const struct rules_call call = {
                .server = trust->request.server,
                .tool = name_of(&trust->request),
                .arguments = trust->request.arguments,
                .annotations = yyjson_obj_get(description.tool, "annotations"),
                .is_method = trust->request.method != NULL,
                .trusts_hints = description.trusts_hints,
                .is_open = find_labels(&trust->request, &description).is_open,
                .seen = trust->session->labels.seen,
                .url = trust_read_url,
                .sent = count_of,
                .data = trust,
        };

        rules_decide(rules, &call, ret);
}

enum trust_result trust_apply_rules(struct trust_call *trust)
{
        const struct rules *rules = trust->session->rights->compiled_rules;
        struct rules_decision decision;

        if (!rules)
                return TRUST_GO_ON;
        decide(trust, rules, &decision);
        trust->effect = decision.effect;
        trust->rule[0] = trust->why[0] = '\0';
        trust->rule_key = 0;
        if (decision.rule) {
                rule_place(decision.rule, trust->rule, sizeof(trust->rule));
                trust->rule_key = decision.rule->key;
                trust->is_proposable = !decision.rule->seen && !decision.rule->has_after;
                if (decision.rule->why)
                        snprintf(trust->why, sizeof(trust->why), "%s", decision.rule->why);
                if (decision.rule->seen)
                        append_seen(trust, decision.rule->seen);
        }
        if (trust->is_outside_plan && trust->effect == RULES_ALLOW)
                trust->effect = RULES_ASK;
        if (decision.fault)
                trust_set_refusal(trust, "ToolDenied", false, "the rules were not decided: %s",
                                  decision.fault);
        else if (decision.effect == RULES_DENY)
                trust_set_refusal(trust, "ToolDenied", true, "%s",
                                  *trust->why ? trust->why : "denied");
        else if (reserve_counts(trust, rules, &decision) < 0)
                trust_set_refusal(trust, "ToolError", false,
                                  "no memory for the counts of \"after\"");
        return trust->refusal.kind ? TRUST_REFUSED : TRUST_GO_ON;
}

enum trust_result trust_count(struct trust_call *trust)
{
        struct session *s = trust->session;
        uint64_t now = clock_us();

        for (size_t i = 0; i < trust->n_counted; i++) {
                call_counts_add(&s->sent, trust->counted[i], trust->cell, now);
                call_counts_add(&s->principal->sent, trust->counted[i], trust->cell, now);
        }
        return TRUST_GO_ON;
}

/* ---- the order ---- */

/* The step before the refusal, once. */
static enum trust_result finish_refused(struct trust_call *trust)
{
        const struct trust_owner *owner = ((struct whole_call *)trust)->owner;

        if (trust->is_refused || !owner->refused)
                return TRUST_REFUSED;
        trust->is_refused = true;
        return owner->refused(trust);
}

static enum trust_result run(struct trust_call *trust)
{
        enum trust_result result = TRUST_GO_ON;

        trust_step *const *steps = ((struct whole_call *)trust)->owner->steps;

        while (result == TRUST_GO_ON && steps[trust->step])
                result = steps[trust->step++](trust);
        if (result == TRUST_REFUSED)
                result = finish_refused(trust);
        trust->waits = result == TRUST_WAITS;
        return result;
}

bool trust_applies(const struct session *session, const struct tool_request *request)
{
        const struct config_profile *rights = session->rights;

        const struct cell *cell = session_current(session);

        if (rights && (session->is_plans_copy || (cell && cell->request.plan)))
                return true;
        return rights &&
               (rights->journal.is_set ||
                (rights->compiled_rules &&
                 rules_can_match(rights->compiled_rules, request->server, name_of(request))));
}

/* Large arguments were to be sent as the code wrote them; now they are written anew. */
static int write_text(struct trust_call *trust)
{
        char *bytes = NULL;
        size_t n = 0;

        struct shared_text *before = trust->request.text;

        if (!before)
                return 0;
        int r = json_write(trust->request.arguments, &bytes, &n);
        if (r < 0)
                return r;
        trust->text = shared_text_new(bytes, n);
        trust->request.text = trust->text;
        if (!trust->text)
                return -ENOMEM;
        charge_set(&before->charge, 0);
        charge_open(&trust->text->charge, trust->session->account);
        if (!charge_fits(&trust->text->charge, n))
                return -ENOBUFS;
        charge_set(&trust->text->charge, n);
        return 0;
}

enum trust_result trust_begin(struct session *session, const struct tool_request *request,
                              uint64_t cell, uint64_t number, struct frame_body *body,
                              const struct trust_owner *owner, struct trust_call **ret)
{
        struct whole_call *whole = calloc(1, sizeof(*whole));

        *ret = NULL;
        if (!whole)
                return TRUST_REFUSED;
        struct trust_call *trust = &whole->trust;
        whole->owner = owner;
        *trust = (struct trust_call){.session = session,
                                     .call = request->call,
                                     .cell = cell,
                                     .number = number,
                                     .request = *request,
                                     .document = take_ptr(body->doc)};
        *ret = trust;
        if (write_text(trust) < 0) {
                trust_set_refusal(trust, "ToolError", false, "too much waits to be read already");
                return TRUST_REFUSED;
        }
        return run(trust);
}

struct trust_call *trust_free(struct trust_call *trust)
{
        if (!trust)
                return NULL;
        if (trust->waits && trust->drop)
                trust->drop(trust);
        shared_text_unref(trust->text);
        buffer_done(&trust->answer);
        yyjson_doc_free(trust->document);
        free(trust->counted);
        free(trust);
        return NULL;
}

void trust_count_planned(struct trust_call *trust)
{
        for (size_t i = 0; i < trust->n_counted; i++)
                call_counts_add(&trust->session->sent, trust->counted[i], trust->cell, clock_us());
}

void trust_refuse(struct trust_call *trust)
{
        const struct trust_owner *owner = ((struct whole_call *)trust)->owner;

        trust->waits = finish_refused(trust) == TRUST_WAITS;
        if (!trust->waits)
                owner->refuse(trust->call, trust);
}

void trust_continue(struct trust_call *trust)
{
        const struct trust_owner *owner = ((struct whole_call *)trust)->owner;

        trust->waits = false;
        switch (run(trust)) {
        case TRUST_GO_ON:
                owner->send(trust->call, trust);
                break;
        case TRUST_REFUSED:
                owner->refuse(trust->call, trust);
                break;
        default:
                break;
        }
}
