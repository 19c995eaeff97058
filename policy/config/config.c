/* A config in memory: its life, its findings and its profiles. */
#include "policy/config/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/config/keys.h"
#include "policy/did-you-mean.h"
#include "policy/rules/rules.h"
#include "policy/rules/selector.h"

#define CONFIG_PROFILE_DEFAULT "default"

struct config *config_new(void)
{
        struct config *config = calloc(1, sizeof(*config));
        if (!config)
                return NULL;
        config->references = 1;
        limits_default(&config->top.limits);
        config_defaults(CONFIG_PROFILE, &config->top);
        config_defaults(CONFIG_TOP, config);
        return config;
}

void config_forget_references(struct config *config)
{
        for (size_t i = 0; i < config->n_pending; i++) {
                free(config->pending[i].from);
                free(config->pending[i].to);
                free(config->pending[i].place);
        }
        free(config->pending);
        config->pending = NULL;
        config->n_pending = 0;
}

struct config *config_free(struct config *config)
{
        if (!config || --config->references > 0)
                return NULL;
        for (size_t i = 0; i < config->n_servers; i++)
                config_done(CONFIG_SERVER, &config->servers[i]);
        for (size_t i = 0; i < config->n_warnings; i++)
                free(config->warnings[i]);
        for (size_t i = 0; i < config->n_profiles; i++)
                config_done(CONFIG_PROFILE, &config->profiles[i]);
        for (size_t i = 0; i < config->n_clients; i++)
                free(config->clients[i].name);
        for (size_t i = 0; i < config->n_published; i++)
                config_done(CONFIG_PUBLISHED, &config->published[i]);
        for (size_t i = 0; i < CONFIG_PROFILES_MAX; i++)
                rules_free(config->compiled_rules[i]);
        config_done(CONFIG_PROFILE, &config->top);
        config_forget_references(config);
        free(config->profiles);
        free(config->clients);
        free(config->published);
        free(config->servers);
        free(config->warnings);
        config_done(CONFIG_TOP, config);
        free(config);
        return NULL;
}

struct config *config_ref(const struct config *config)
{
        struct config *counted = (struct config *)(uintptr_t)config;

        counted->references++;
        return counted;
}

void config_findings_done(struct config_findings *findings)
{
        for (size_t i = 0; i < findings->n; i++)
                free(findings->items[i].text);
        free(findings->items);
        *findings = (struct config_findings){};
}

bool config_report(struct config *config, bool is_error, const char *text)
{
        struct config_findings *f = config->findings;

        if (!f)
                return false;
        struct config_finding *grown = reallocarray(f->items, f->n + 1, sizeof(*grown));
        if (!grown)
                return false;
        f->items = grown;
        grown[f->n] = (struct config_finding){is_error, strdup(text)};
        f->n_errors += is_error;
        return grown[f->n].text ? (f->n++, true) : false;
}

int config_add_warning(struct config *config, char *text)
{
        size_t one = 1;

        if (!text)
                return -ENOMEM;
        if (config_report(config, false, text)) {
                free(text);
                return 0;
        }
        char **more = &text;
        int r = config_append_items(&config->warnings, &config->n_warnings, &more, &one,
                                    sizeof(text));
        if (r < 0)
                free(text);
        return r;
}

size_t config_profile_index(const struct config *config, const char *name)
{
        for (size_t i = 0; i < config->n_profiles; i++)
                if (strcmp(config->profiles[i].name, name) == 0)
                        return i;
        return SIZE_MAX;
}

struct config_profile *config_profile_named(struct config *config, const char *name)
{
        size_t i = config_profile_index(config, name);

        if (i != SIZE_MAX)
                return &config->profiles[i];
        /* One place is reserved for "default", which is in every config. */
        bool has_default = config_profile_index(config, CONFIG_PROFILE_DEFAULT) != SIZE_MAX ||
                           strcmp(name, CONFIG_PROFILE_DEFAULT) == 0;
        if (config->n_profiles == CONFIG_PROFILES_MAX - (has_default ? 0 : 1)) {
                errno = E2BIG;
                return NULL;
        }
        struct config_profile *grown = reallocarray(config->profiles, config->n_profiles + 1,
                                                    sizeof(*grown));
        if (!grown)
                return NULL;
        config->profiles = grown;
        grown[config->n_profiles] = (struct config_profile){.name = strdup(name)};
        return grown[config->n_profiles].name ? &grown[config->n_profiles++] : NULL;
}

int config_find_profile(const struct config *config, const char *name, struct error *err)
{
        const char *names[CONFIG_PROFILES_MAX + 1] = {};
        size_t i = config_profile_index(config, name);

        if (i != SIZE_MAX)
                return (int)i;
        for (i = 0; i < config->n_profiles; i++)
                names[i] = config->profiles[i].name;
        const char *meant = did_you_mean(name, names);
        if (meant)
                return error_set(err, ENOENT, "there is no profile \"%s\"; did you mean \"%s\"?",
                                 name, meant);
        return error_set(err, ENOENT, "there is no profile \"%s\" in the config", name);
}

uint32_t config_background_ms(const struct config *newest, const struct config_profile *own)
{
        size_t i = own && own->name ? config_profile_index(newest, own->name) : SIZE_MAX;

        if (i != SIZE_MAX)
                return newest->profiles[i].background_ms;
        return own ? own->background_ms : newest->top.background_ms;
}

bool config_same_list(char *const *a, char *const *b)
{
        size_t i = 0;

        if (!a || !b)
                return (!a || !a[0]) && (!b || !b[0]);
        while (a[i] && b[i] && strcmp(a[i], b[i]) == 0)
                i++;
        return !a[i] && !b[i];
}

size_t config_profile_of_client(const struct config *config, const char *client)
{
        for (size_t i = 0; client && i < config->n_clients; i++)
                if (strcmp(config->clients[i].name, client) == 0)
                        return config->clients[i].profile;
        return config->profile;
}

int config_set_client(struct config *config, const char *client, size_t profile)
{
        for (size_t i = 0; i < config->n_clients; i++) {
                if (strcmp(config->clients[i].name, client) == 0) {
                        config->clients[i].profile = profile;
                        return 0;
                }
        }
        struct config_client *grown = reallocarray(config->clients, config->n_clients + 1,
                                                   sizeof(*grown));
        if (!grown)
                return -ENOMEM;
        config->clients = grown;
        grown[config->n_clients] = (struct config_client){strdup(client), profile};
        return grown[config->n_clients].name ? (config->n_clients++, 0) : -ENOMEM;
}

/* ---- rules ---- */

/* full: "server.tool", or NULL. */
static bool any_matches(char *const *patterns, const char *tool, const char *full)
{
        for (; patterns && *patterns; patterns++)
                if (selector_matches(*patterns, tool) ||
                    (full && selector_matches(*patterns, full)))
                        return true;
        return false;
}

bool config_tool_allowed(const struct config_tool_rules *rules, const char *server,
                         const char *tool)
{
        _cleanup_free_ char *full = NULL;

        if (!rules->allow && !rules->deny)
                return true;
        /* Without memory the tool is denied, because a rule that cannot be checked may deny it. */
        if (server && asprintf(&full, "%s.%s", server, tool) < 0) {
                full = NULL;
                return false;
        }
        if (any_matches(rules->deny, tool, full))
                return false;
        return !rules->allow || any_matches(rules->allow, tool, full);
}

static bool same_text(const char *a, const char *b)
{
        return a == b || (a && b && strcmp(a, b) == 0);
}

/* A session is made after the secrets of its profile were read. */
static bool same_secrets(const struct config_profile *a, const struct config_profile *b)
{
        for (size_t i = 0; i < a->n_secrets && i < b->n_secrets; i++) {
                const struct config_secret_from *x = &a->secrets[i].from, *y = &b->secrets[i].from;
                if (!same_text(a->secrets[i].name, b->secrets[i].name) ||
                    !same_text(x->env, y->env) || !same_text(x->file, y->file) ||
                    !same_text(x->credential, y->credential) ||
                    !config_same_list(x->command, y->command) ||
                    !config_same_list(a->secrets[i].to, b->secrets[i].to) ||
                    !config_same_list(a->secrets[i].in, b->secrets[i].in) ||
                    !same_text(a->secrets[i].like, b->secrets[i].like))
                        return false;
        }
        return a->n_secrets == b->n_secrets;
}

/* Whether sandboxes are the same under both. The tools that they may call are the broker's affair. */
bool config_same_sandbox(const struct config_profile *a, const struct config_profile *b)
{
        if (!same_text(a->name, b->name) || !same_text(a->image, b->image) ||
            !same_text(a->python, b->python) || a->python_downloads != b->python_downloads ||
            a->language != b->language || !same_text(a->nodejs, b->nodejs) ||
            !same_text(a->pyodide, b->pyodide) || a->network != b->network ||
            memcmp(&a->limits, &b->limits, sizeof(a->limits)) != 0 || a->n_mounts != b->n_mounts ||
            !config_same_list(a->preload, b->preload) || a->recycle != b->recycle ||
            !same_text(a->program.source, b->program.source) ||
            a->packages.install != b->packages.install ||
            !config_same_list(a->libraries.python, b->libraries.python) ||
            !config_same_list(a->libraries.npm, b->libraries.npm) ||
            !config_same_list(a->egress.inspect, b->egress.inspect) || !same_secrets(a, b))
                return false;
        for (size_t i = 0; i < a->n_mounts; i++) {
                if (!same_text(a->mounts[i].source, b->mounts[i].source) ||
                    !same_text(a->mounts[i].target, b->mounts[i].target) ||
                    a->mounts[i].writable != b->mounts[i].writable ||
                    a->mounts[i].locks != b->mounts[i].locks ||
                    a->mounts[i].is_private != b->mounts[i].is_private)
                        return false;
        }
        return true;
}
