/* "network" of a profile. */
#include "policy/config/network-keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/config/keys.h"
#include "policy/network-rules.h"

int config_read_network(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        struct config_profile *profile = r->profile;
        yyjson_val *allow = yyjson_obj_get(value, "allow");

        config_reset(key, profile);
        profile->network = CONFIG_NETWORK_NONE;
        if (yyjson_equals_str(value, "none"))
                return 0;
        if (yyjson_equals_str(value, "loopback")) {
                profile->network = CONFIG_NETWORK_LOOPBACK;
                return 0;
        }
        if (!yyjson_is_arr(allow) || yyjson_arr_size(allow) == 0)
                return config_mistake(
                        r, value,
                        "network must be \"none\", \"loopback\" or {\"allow\": [\"api.example.com:443\", \"*.example.org\"]}");
        profile->network = CONFIG_NETWORK_ALLOW;
        return config_read_object(r, key, value);
}

/* ---- hosts ---- */

bool config_host_print(const char *entry, char ret[CONFIG_HOST_SIZE])
{
        struct network_host host;
        uint16_t port;

        if (!network_authority_parse(entry, strlen(entry), NETWORK_PORT_TLS, &host, &port) ||
            host.kind != NETWORK_NAME)
                return false;
        snprintf(ret, CONFIG_HOST_SIZE, "%s:%u", host.text, port);
        return true;
}

bool config_inspects(const struct config_egress *egress, const char *entry)
{
        char *const *list = egress->inspect;
        char host[CONFIG_HOST_SIZE];

        if (!list || !config_host_print(entry, host))
                return false;
        while (*list && strcmp(*list, host) != 0)
                list++;
        return *list;
}

static int add_inspected(struct config_egress *egress, const char *host)
{
        size_t n = 0;

        if (config_inspects(egress, host))
                return 0;
        while (egress->inspect && egress->inspect[n])
                n++;
        char **grown = reallocarray(egress->inspect, n + 2, sizeof(*grown));
        if (!grown)
                return -ENOMEM;
        egress->inspect = grown;
        grown[n] = strdup(host);
        grown[n + 1] = NULL;
        return grown[n] ? 0 : -ENOMEM;
}

int config_inspect_also(const struct config_egress *bound, struct config_egress *to)
{
        char *const *item = bound->inspect;
        struct network_rule rule;
        struct network_host host;
        uint16_t port;
        int r = 0;

        for (; item && *item && r >= 0; item++) {
                network_authority_parse(*item, strlen(*item), 0, &host, &port);
                for (char *const *entry = to->allow; entry && *entry && r >= 0; entry++)
                        if (!network_rule_parse(*entry, &rule) &&
                            network_rules_name(&rule, 1, &host, port))
                                r = add_inspected(to, *item);
        }
        return r;
}

/* A string, or {"host": …, "inspect": true}. */
static int take_host(struct config_reading *r, yyjson_val *item, size_t i, const char **text,
                     bool *is_inspected)
{
        enum { KEY_HOST = 1, KEY_INSPECT = 2 };
        yyjson_val *name, *inspect = yyjson_obj_get(item, "inspect");
        yyjson_obj_iter members = yyjson_obj_iter_with(item);
        unsigned seen = 0;

        *text = config_text(yyjson_is_obj(item) ? yyjson_obj_get(item, "host") : item);
        *is_inspected = yyjson_is_true(inspect);
        if (!*text || !**text || strlen(*text) > CONFIG_NAME_MAX ||
            (inspect && !yyjson_is_bool(inspect)))
                return config_mistake(
                        r, item,
                        "%s: item %zu must be a string of 1 to %d bytes, or {\"host\": \"api.example.com\", \"inspect\": true}",
                        r->name, i, CONFIG_NAME_MAX);
        while ((name = yyjson_obj_iter_next(&members))) {
                unsigned key = yyjson_equals_str(name, "host")      ? KEY_HOST
                               : yyjson_equals_str(name, "inspect") ? KEY_INSPECT
                                                                    : 0;
                if (!key || seen & key)
                        return config_mistake(r, name, "%s: item %zu: \"%.100s\" %s", r->name, i,
                                              yyjson_get_str(name),
                                              key ? "occurs twice"
                                                  : "is not \"host\" or \"inspect\"");
                seen |= key;
        }
        return 0;
}

static int make_host(struct config_reading *r, yyjson_val *name, yyjson_val *item, size_t i,
                     char **ret)
{
        struct config_egress *egress = &r->profile->egress;
        char host[CONFIG_HOST_SIZE];
        struct network_rule rule;
        bool is_inspected;
        const char *text;

        int e = take_host(r, item, i, &text, &is_inspected);
        if (e < 0 || r->wrong)
                return e;
        const char *why = network_rule_parse(text, &rule);
        if (why)
                return config_mistake(r, item, "%s: \"%.100s\" %s", r->name, text, why);
        if (is_inspected && (!config_host_print(text, host) || rule.port == NETWORK_PORT_HTTP))
                return config_mistake(
                        r, item,
                        "%s: \"%.100s\": inspect needs one name and a port for HTTPS, not an address or a pattern",
                        r->name, text);
        if (is_inspected && add_inspected(egress, host) < 0)
                return config_no_memory(r->reader);
        *ret = strdup(text);
        return 0;
}

int config_read_hosts(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        if (!yyjson_is_arr(value) || yyjson_arr_size(value) > key->most)
                return config_mistake(r, value, "%s must be an array of at most %llu hosts",
                                      r->name, (unsigned long long)key->most);
        return config_read_items(r, value, make_host, config_member(key, r->into));
}
