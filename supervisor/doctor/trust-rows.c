/* Rows about who decides on calls of tools. */
#include "supervisor/doctor/trust-rows.h"

#include "base/plural.h"
#include "policy/config/ask-keys.h"
#include "policy/rules/rules.h"

static size_t count(const struct rules *rules, enum rules_effect effect)
{
        size_t n = 0;

        for (size_t i = 0; i < rules_count(rules); i++)
                n += rules_at(rules, i)->effect == effect;
        return n;
}

static const char *who_answers(const struct config_profile *profile)
{
        switch (config_ask_by(&profile->ask)) {
        case CONFIG_ASK_CLIENT:
                return "the client of the call, if it can show a form";
        case CONFIG_ASK_TERMINAL:
                return "'cloister approve'";
        default:
                return "the client of the call, if it can show a form, or 'cloister approve'";
        }
}

static void add_rules(struct doctor *d, const struct config_profile *profile)
{
        const struct rules *rules = profile->compiled_rules;
        size_t n = rules_count(rules), n_ask = count(rules, RULES_ASK);

        if (n == 0)
                return;
        doctor_add(d, "calls", DOCTOR_EFFECTIVE, false, NULL,
                   "profile \"%s\": %zu rule%s, %zu deny, %zu ask%s%s", profile->name, n, plural(n),
                   count(rules, RULES_DENY), n_ask, n_ask > 0 ? ": answers come from " : "",
                   n_ask > 0 ? who_answers(profile) : "");
}

void doctor_add_trust(struct doctor *d, const struct config *config)
{
        for (size_t i = 0; i < config->n_profiles; i++)
                add_rules(d, &config->profiles[i]);
}
