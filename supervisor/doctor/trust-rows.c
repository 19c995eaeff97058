/* Rows about who decides on calls of tools. */
#include "supervisor/doctor/trust-rows.h"

#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "policy/config/ask-keys.h"
#include "policy/config/network-keys.h"
#include "policy/rules/rules.h"

static size_t count(const struct rules *rules, enum rules_effect effect)
{
        size_t n = 0;

        for (size_t i = 0; i < rules_count(rules); i++)
                n += rules_at(rules, i)->effect == effect;
        return n;
}

enum { WHO_MAX = 160 + CONFIG_ASK_PAGE_MAX };

static void add_who(char to[WHO_MAX], const char *who)
{
        size_t n = strlen(to);

        snprintf(to + n, WHO_MAX - n, "%s%s", n > 0 ? ", or " : "", who);
}

/* "answers come from …": those who answer questions about calls of this profile. */
static void name_who_answers(const struct config_profile *profile, char to[WHO_MAX])
{
        unsigned by = config_ask_by(&profile->ask);
        char page[64 + CONFIG_ASK_PAGE_MAX];

        to[0] = '\0';
        if (by & CONFIG_ASK_CLIENT)
                add_who(to, "the client of the call, if it can show a form");
        if (by & CONFIG_ASK_TERMINAL)
                add_who(to, "'cloister approve'");
        if (by & CONFIG_ASK_PAGE) {
                snprintf(page, sizeof(page), "a page of 'cloister serve' below %s",
                         profile->ask.page);
                add_who(to, page);
        }
}

static void add_rules(struct doctor *d, const struct config_profile *profile)
{
        const struct rules *rules = profile->compiled_rules;
        size_t n = rules_count(rules), n_ask = count(rules, RULES_ASK);
        char who[WHO_MAX];

        name_who_answers(profile, who);
        if (n == 0)
                doctor_add(d, "calls", DOCTOR_EFFECTIVE, false, NULL,
                           "profile \"%s\": no rules: code may call each tool", profile->name);
        else
                doctor_add(d, "calls", DOCTOR_EFFECTIVE, false, NULL,
                           "profile \"%s\": %zu rule%s, %zu deny, %zu ask%s%s", profile->name, n,
                           plural(n), count(rules, RULES_DENY), n_ask,
                           n_ask > 0 ? ": answers come from " : "", n_ask > 0 ? who : "");
}

static bool has(const char *list, const char *name)
{
        size_t n = strlen(name);

        for (const char *at = list; (at = strstr(at, name)); at++)
                if ((at == list || at[-1] == ' ') && (at[n] == ',' || at[n] == '\0'))
                        return true;
        return false;
}

/* Puts another name at the end of a list. Names that do not fit become one "…". */
static void put(char *list, size_t size, const char *name)
{
        static const char more[] = "…";
        size_t n = strlen(list), length = strlen(name);

        if (has(list, name) || has(list, more))
                return;
        bool fits = n + length + 2 + 2 + sizeof(more) <= size;
        snprintf(list + n, size - n, "%s%s", n > 0 ? ", " : "", fits ? name : more);
}

/* Names only: no value is read. */
static void add_secrets(struct doctor *d, const struct config_profile *profile)
{
        char names[400] = "";

        for (size_t i = 0; i < profile->n_secrets; i++)
                put(names, sizeof(names), profile->secrets[i].name);
        if (profile->n_secrets > 0)
                doctor_add(d, "secrets", DOCTOR_EFFECTIVE, false, NULL,
                           "profile \"%s\": %s (no value was read)", profile->name, names);
}

/* The hosts for which cloister-inject ends TLS: those with "inspect", and those of secrets. */
static void add_read_hosts(struct doctor *d, const struct config_profile *profile)
{
        char hosts[400] = "", name[CONFIG_HOST_SIZE];

        for (char *const *host = profile->egress.inspect; host && *host; host++)
                put(hosts, sizeof(hosts), *host);
        for (size_t i = 0; i < profile->n_secrets; i++)
                for (char *const *host = profile->secrets[i].to; host && *host; host++)
                        if (config_host_print(*host, name))
                                put(hosts, sizeof(hosts), name);
        if (*hosts)
                doctor_add(d, "requests", DOCTOR_EFFECTIVE, false, NULL,
                           "profile \"%s\": cloister-inject reads HTTPS requests to %s",
                           profile->name, hosts);
}

void doctor_add_trust(struct doctor *d, const struct config *config)
{
        bool has_rules = false;

        for (size_t i = 0; i < config->n_profiles; i++)
                has_rules = has_rules || rules_count(config->profiles[i].compiled_rules) > 0;
        for (size_t i = 0; i < config->n_profiles; i++) {
                if (has_rules)
                        add_rules(d, &config->profiles[i]);
                add_secrets(d, &config->profiles[i]);
                add_read_hosts(d, &config->profiles[i]);
        }
}
