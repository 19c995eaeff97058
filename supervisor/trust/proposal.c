/* Records of the kind "proposed". */
#include "supervisor/trust/proposal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/mask.h"
#include "supervisor/trust/records/record.h"

/* A masked text would be a rule about other arguments. */
static bool has_secret(const struct question_call *call)
{
        _cleanup_free_ char *copy = strndup(call->json, call->n);

        if (!copy)
                return true;
        mask_text(copy);
        return strlen(copy) != call->n || memcmp(copy, call->json, call->n) != 0;
}

/* Returns why there can be no rule for the call, or NULL. */
static const char *obstacle(const struct config_profile *profile, const struct question_call *call)
{
        if (call->rule_key == 0)
                return "the rule that asks depends on earlier calls (\"after\", \"seen\")";
        if (strchr(call->server, '*') || strchr(call->tool, '*'))
                return "the name of the tool has a *";
        if (call->n > PROPOSAL_ARGUMENTS_MAX)
                return "the arguments have more than 4 KiB";
        if (profile->journal.arguments == CONFIG_ARGUMENTS_HASH)
                return "the journal has no arguments (\"arguments\": \"hash\")";
        if (profile->journal.arguments == CONFIG_ARGUMENTS_MASKED && has_secret(call))
                return "an argument looks like a secret";
        return NULL;
}

static bool is_same(const struct question_call *a, const struct question_call *b)
{
        return a->rule_key == b->rule_key && a->n == b->n && memcmp(a->json, b->json, a->n) == 0 &&
               strcmp(a->server, b->server) == 0 && strcmp(a->tool, b->tool) == 0;
}

static struct log_field text_field(const char *name, const char *text)
{
        return (struct log_field){name, LOG_TEXT, text, strlen(text), 0};
}

static void record_one(const struct config_profile *profile, struct log_ids ids, const char *id,
                       size_t row, const struct question_call *call)
{
        const char *why = obstacle(profile, call);
        struct error err = {};
        char key[17];

        ids.server = call->server;
        ids.tool = call->tool;
        ids.call = call->number;
        snprintf(key, sizeof(key), "%016" PRIx64, call->rule_key);
        const struct log_field fields[] = {
                text_field("id", id),           {"row", LOG_NUMBER, NULL, 0, row},
                text_field("rule", call->rule), text_field("profile", profile->name),
                text_field("key", key),         {"arguments", LOG_JSON, call->json, call->n, 0},
        };
        if (!why && record_fact(&profile->journal, "proposed", &ids, fields,
                                sizeof(fields) / sizeof(*fields), &err) < 0)
                why = err.text;
        if (why)
                log_event(LOG_LEVEL_INFO, &ids, "question %s, row %zu: no rule is proposed: %s", id,
                          row, why);
}

void proposals_record(const struct config_profile *profile, const struct log_ids *ids,
                      const struct question_view *view, const bool *allowed)
{
        const struct question_call *proposed[PROPOSALS_OF_ANSWER_MAX];
        size_t n = 0;

        if (!profile->journal.is_set)
                return;
        for (size_t i = 0; i < view->n_calls && n < PROPOSALS_OF_ANSWER_MAX; i++) {
                const struct question_call *call = view->calls[i];
                bool is_known = !allowed[i];

                for (size_t k = 0; k < n && !is_known; k++)
                        is_known = is_same(proposed[k], call);
                if (is_known)
                        continue;
                proposed[n++] = call;
                record_one(profile, *ids, view->id, i + 1, call);
        }
}
