/* Rules are kept as texts with their places, which are compiled when the config is complete. */
#include "policy/config/rule-keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/json-out.h"
#include "base/json.h"
#include "policy/config/config.h"
#include "policy/rules/labels.h"
#include "policy/rules/rules.h"

enum { TEXT_MAX = CONFIG_FILE_SIZE_MAX + 16 * 1024 };

int config_keep_rule(struct config_reading *r, const char *name, yyjson_val *value, size_t number,
                     char **ret)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(TEXT_MAX);
        struct json_out out = {.to = &b};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "file", r->reader->file);
        json_out_int(&out, "line", (int64_t)config_line_of(&r->reader->lines, value));
        json_out_int(&out, "number", (int64_t)number);
        json_out_bool(&out, "own", r->profile->name != NULL);
        json_out_value(&out, name, value);
        json_out_end(&out, '}');
        if (out.error >= 0)
                *ret = strndup(buffer_bytes(&b), b.length);
        return *ret ? 0 : config_no_memory(r->reader);
}

static int make_rule(struct config_reading *r, yyjson_val *name, yyjson_val *value, size_t i,
                     char **ret)
{
        struct error why = {};
        struct rule rule = {};
        yyjson_val *at;

        int e = rule_parse(value, &rule, &at, &why);
        rule_done(&rule);
        if (e == -ENOMEM)
                return config_no_memory(r->reader);
        return e < 0 ? config_mistake(r, at, "rules: rule %zu: %s", i, why.text)
                     : config_keep_rule(r, "rule", value, i, ret);
}

int config_read_rules(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        if (!yyjson_is_arr(value) || yyjson_arr_size(value) > key->most)
                return config_mistake(
                        r, value,
                        "rules must be an array of at most %d rules: [{\"deny\": \"files.delete_*\"}]",
                        RULES_MAX);
        return config_read_items(r, value, make_rule, &r->profile->rules);
}

int config_read_labels(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        struct error why = {};
        yyjson_val *at;
        size_t n;

        if (labels_check(value, &at, &why) < 0)
                return config_mistake(r, at, "labels: %s", why.text);
        free(r->server->labels);
        r->server->labels = NULL;
        int e = json_write(value, &r->server->labels, &n);
        return e == -ENOMEM ? config_no_memory(r->reader) : e;
}

int config_put_before(char ***list, char ***first)
{
        size_t n = 0, m = 0;

        while (*first && (*first)[n])
                n++;
        while (*list && (*list)[m])
                m++;
        if (!*first)
                return 0;
        char **grown = reallocarray(*first, n + m + 1, sizeof(char *));
        if (!grown)
                return -ENOMEM;
        *first = NULL;
        if (m > 0)
                memcpy(grown + n, *list, m * sizeof(char *));
        grown[n + m] = NULL;
        free(*list);
        *list = grown;
        return 0;
}

size_t config_rules_servers(const struct config *config,
                            struct rules_server ret[CONFIG_SERVERS_MAX])
{
        size_t n = 0;

        for (; n < config->n_servers && n < CONFIG_SERVERS_MAX; n++)
                ret[n] = (struct rules_server){config->servers[n].name,
                                               config->servers[n].trust_hints,
                                               config->servers[n].labels};
        return n;
}

static int compile(struct config *config, size_t i, struct error *err)
{
        struct rules_server servers[CONFIG_SERVERS_MAX];
        size_t n = config_rules_servers(config, servers);
        struct config_profile *p = &config->profiles[i];

        config->compiled_rules[i] = rules_free(config->compiled_rules[i]);
        int r = p->rules && p->rules[0]
                        ? rules_new(p->rules, servers, n, &config->compiled_rules[i], err)
                        : 0;
        p->compiled_rules = config->compiled_rules[i];
        return r;
}

int config_compile_rules(struct config *config, struct error *err)
{
        for (size_t i = 0; i < config->n_profiles; i++) {
                struct error why = {};
                int r = compile(config, i, &why);
                if (r < 0 && !config_report(config, true, why.text))
                        return error_set(err, why.code, "%s", why.text);
        }
        return 0;
}
