/* The step of a call about which a rule asks. */
#include "supervisor/trust/ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "supervisor/service/sha256.h"
#include "supervisor/trust/asking.h"

#define DIGEST_START UINT64_C(0xcbf29ce484222325)

/* A call that waits for a person. */
struct waiting {
        struct asking_call asking; /* first */
        struct trust_call *trust;
        char *json; /* the arguments as they will be sent */
};

static void add(uint64_t *digest, const void *bytes, size_t n)
{
        const unsigned char *s = bytes;

        for (size_t i = 0; i < n; i++)
                *digest = (*digest ^ s[i]) * UINT64_C(0x100000001b3);
}

/* A change of either asks again. */
uint64_t trust_definition(const struct trust_call *trust)
{
        const struct tool_provider *tools = &trust->session->context->tools;
        struct tool_description description = {};
        uint64_t digest = DIGEST_START;
        _cleanup_free_ char *text = NULL;
        char sum[SHA256_TEXT_SIZE];
        size_t n = 0;

        if (tools->describe && trust->request.tool)
                tools->describe(tools->data, trust->request.server, trust->request.tool,
                                &description);
        if (description.tool && json_write(description.tool, &text, &n) >= 0) {
                /* A server could find another definition with the same digest of a weaker kind. */
                sha256_text(text, n, sum);
                add(&digest, sum, 16);
        }
        add(&digest, &trust->rule_key, sizeof(trust->rule_key));
        return digest;
}

static void free_waiting(struct trust_call *trust)
{
        struct waiting *w = trust->data;

        trust->data = NULL;
        trust->drop = NULL;
        free(w->json);
        free(w);
}

static void drop(struct trust_call *trust)
{
        struct waiting *w = trust->data;

        asking_drop(trust->session->asking, &w->asking);
        free_waiting(trust);
}

static void refuse(struct trust_call *trust, const char *why)
{
        trust_set_refusal(trust, "ToolDenied", true, "%s%s%s", trust->why, *trust->why ? ": " : "",
                          why);
}

static void on_decided(struct asking_call *call, bool is_allowed, const char *why)
{
        struct trust_call *trust = ((struct waiting *)call)->trust;
        bool is_unrecorded = call->approval.is_unrecorded;

        free_waiting(trust);
        if (is_allowed) {
                /* A rule may deny it since: other calls of the same answer were sent before, and count. */
                if (trust_apply_rules(trust) == TRUST_REFUSED)
                        trust_refuse(trust);
                else
                        trust_continue(trust);
                return;
        }
        if (is_unrecorded)
                trust_set_refusal(trust, "ToolUnavailable", false, "%s", why);
        else
                refuse(trust, why);
        trust_refuse(trust);
}

static struct waiting *make(struct trust_call *trust)
{
        const struct tool_request *request = &trust->request;
        struct waiting *w = calloc(1, sizeof(*w));
        size_t n = 0;

        if (!w || json_write(request->arguments, &w->json, &n) < 0) {
                free(w);
                return NULL;
        }
        w->trust = trust;
        w->asking.decided = on_decided;
        w->asking.approval.call = (struct question_call){
                .number = trust->number,
                .server = request->server,
                .tool = request->method ? request->method : request->tool,
                .json = w->json,
                .n = n,
                .definition = trust_definition(trust),
                .rule = *trust->rule ? trust->rule : QUESTION_NO_RULE,
                .why = trust->why,
                .rule_key = trust->is_proposable ? trust->rule_key : 0,
        };
        return w;
}

enum trust_result trust_ask(struct trust_call *trust)
{
        struct session *session = trust->session;
        const char *why = APPROVAL_NO_MEMORY;

        if (trust->effect != RULES_ASK || trust->is_planned)
                return TRUST_GO_ON;
        struct waiting *w = make(trust);
        if (w) {
                trust->data = w;
                trust->drop = drop;
                enum approval_verdict verdict = asking_ask(&session->asking, session, &w->asking,
                                                           &why);
                if (verdict == APPROVAL_WAITS)
                        return TRUST_WAITS;
                free_waiting(trust);
                if (verdict == APPROVAL_ALLOWED)
                        return TRUST_GO_ON;
        }
        refuse(trust, why);
        return TRUST_REFUSED;
}

static bool decides(struct asking_call *call, bool *is_allowed, const char **why)
{
        struct trust_call *trust = ((struct waiting *)call)->trust;
        enum trust_result result = trust_apply_rules(trust);

        *why = "the rules have changed";
        *is_allowed = result == TRUST_GO_ON;
        return result != TRUST_GO_ON || trust->effect != RULES_ASK;
}

void trust_ask_recheck(struct session *session)
{
        asking_recheck(session->asking, decides);
}
