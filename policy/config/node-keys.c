/* The keys of "node". */
#include "policy/config/node-keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/config/keys.h"
#include "policy/config/server.h"

#define NODE_FORM "\"n2\" or {\"name\": \"n2\", \"lease\": \"5s\", \"balancers\": [\"10.0.0.5\"]}"

int config_read_node(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        struct config *config = r->into;
        enum config_form form;

        config_reset(key, config);
        if (yyjson_is_str(value)) {
                r->into = &config->node;
                return config_read_value(r, config_find_key(CONFIG_NODE, "name", &form), value);
        }
        if (!yyjson_is_obj(value))
                return config_mistake(r, value, "node must be " NODE_FORM);
        int e = config_read_object(r, key, value);
        if (e < 0 || r->wrong)
                return e;
        if (!config->node.name)
                return config_mistake(r, value, "node needs a name: it must be " NODE_FORM);
        if (yyjson_obj_get(value, "lease") && !config->node.balancers)
                return config_mistake(
                        r, value,
                        "lease needs node.balancers, the addresses whose checks count: [\"10.0.0.5\"]");
        return 0;
}

void config_merge_node(struct config *config, struct config *file)
{
        if (!file->node.name)
                return;
        for (const struct config_key *key = NULL; (key = config_next_key(CONFIG_NODE, key));)
                config_move(key, &file->node, &config->node);
}

/* A name with references to variables is checked when it is expanded. */
int config_check_node_name(struct config_reading *r, const struct config_key *key,
                           yyjson_val *value)
{
        const char *text = *(char **)config_member(key, r->into), *end;
        size_t plain = strcspn(text, "$");

        while (text[plain] == '$' && text[plain + 1] == '{' && (end = strchr(text + plain, '}')))
                plain = (size_t)(end + 1 - text) + strcspn(end + 1, "$");
        if (text[plain] == '\0' && strchr(text, '$'))
                return 0; /* checked once it is expanded */
        if (node_name_valid(text, strlen(text)))
                return 0;
        return config_mistake(r, value, "%s must be " NODE_NAME_RULE ", such as \"n2\"", r->name);
}

/* A rule of a network has a port where it is not one public address; a balancer has none. */
bool config_balancer_parse(const char *text, struct network_rule *ret)
{
        char rule[NETWORK_RULE_MAX + 1];
        int n = snprintf(rule, sizeof(rule), "%s:%d", text, CONFIG_BALANCER_PORT);

        return n > 0 && (size_t)n < sizeof(rule) && !network_rule_parse(rule, ret) &&
               ret->host.kind != NETWORK_NAME;
}

int config_check_balancers(struct config_reading *r, const struct config_key *key,
                           yyjson_val *value)
{
        char *const *list = *(char ***)config_member(key, r->into);
        struct network_rule rule;

        if (!list || !list[0])
                return config_mistake(r, value,
                                      "balancers is empty: give addresses, such as \"10.0.0.5\"");
        for (size_t i = 0; list[i]; i++) {
                if (!config_balancer_parse(list[i], &rule))
                        return config_mistake(
                                r, value,
                                "balancers: \"%.60s\" is not an address or a range of addresses, such as \"10.0.0.5\", \"10.0.0.0/24\" or \"[fd00::5]\"",
                                list[i]);
        }
        return 0;
}

int config_node_name(const struct config *config, const char *(*lookup)(const char *name),
                     char ret[NODE_NAME_MAX + 1], struct error *err)
{
        const struct config_values values = {.variable = lookup};
        char *name = NULL;

        ret[0] = '\0';
        int r = config->node.name ? config_expand(config->node.name, "node", &values, &name, err)
                                  : 0;
        if (r >= 0 && name && !node_name_valid(name, strlen(name)))
                r = error_set(err, EINVAL,
                              "node: \"%.40s\" is not a name of a node: it has " NODE_NAME_RULE,
                              name);
        if (r >= 0 && name)
                memcpy(ret, name, strlen(name) + 1);
        free(name);
        return r;
}
