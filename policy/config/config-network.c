/* "network": "none", "loopback", or an object: what a session may reach. */
#include "policy/config/config-network.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/network-rules.h"

#define KIB (1024ull)
#define TIB (1024ull * 1024 * 1024 * KIB)

static const struct config_key number_keys[] = {
        {"max_bytes", CONFIG_BYTES, offsetof(struct config_egress, max_bytes), KIB, 64 * TIB},
        {"rate", CONFIG_BYTES, offsetof(struct config_egress, rate), KIB, 64 * TIB},
};

static int read_allow(struct config_reader *reader, const char *where, yyjson_val *value,
                      struct config_egress *ret)
{
        struct config_complaint bad = {};
        struct network_rule rule;

        int r = config_read_names(value, "network.allow", NETWORK_RULES_MAX, &ret->allow, &bad);
        if (r < 0)
                return r == -ENOMEM ? config_no_memory(reader) : r;
        if (*bad.text)
                return config_wrong(reader, bad.at, "%s%s", where, bad.text);
        for (size_t i = 0; ret->allow[i] && r >= 0; i++) {
                const char *why = network_rule_parse(ret->allow[i], &rule);
                if (why)
                        r = config_wrong(reader, yyjson_arr_get(value, i),
                                         "%snetwork.allow: \"%.100s\" %s", where, ret->allow[i],
                                         why);
        }
        return r;
}

static int read_member(struct config_reader *reader, const char *where, const char *inside,
                       yyjson_val *name, yyjson_val *value, struct config_egress *ret)
{
        static const char *const names[] = {"allow", "max_bytes", "rate", NULL};
        char dotted[CONFIG_NAME_MAX];

        if (strcmp(yyjson_get_str(name), "allow") == 0)
                return read_allow(reader, where, value, ret);
        snprintf(dotted, sizeof(dotted), "%snetwork.", where);
        for (size_t i = 0; i < ARRAY_SIZE(number_keys); i++)
                if (strcmp(yyjson_get_str(name), number_keys[i].name) == 0)
                        return config_read_value(reader, &number_keys[i], dotted, value, ret);
        return config_warn_unknown(reader, inside, name, names);
}

static int read_egress(struct config_reader *reader, const char *where, yyjson_val *object,
                       struct config_egress *ret)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(object);
        yyjson_val *name;
        char inside[CONFIG_NAME_MAX];
        int r = 0;

        snprintf(inside, sizeof(inside), "%snetwork: ", where);
        while (r >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                r = config_check_twice(reader, inside, object, name);
                if (r >= 0)
                        r = read_member(reader, where, inside, name, yyjson_obj_iter_get_val(name),
                                        ret);
        }
        return r;
}

int config_read_network(struct config_reader *reader, struct config_profile *profile,
                        const char *where, yyjson_val *value)
{
        const char *text = config_text(value);

        config_egress_done(&profile->egress);
        profile->egress = (struct config_egress){.max_bytes = CONFIG_EGRESS_BYTES};
        profile->network = CONFIG_NETWORK_NONE;
        if (text && strcmp(text, "none") == 0)
                return 0;
        if (text && strcmp(text, "loopback") == 0) {
                profile->network = CONFIG_NETWORK_LOOPBACK;
                return 0;
        }
        if (!yyjson_is_obj(value) || !yyjson_is_arr(yyjson_obj_get(value, "allow")) ||
            yyjson_arr_size(yyjson_obj_get(value, "allow")) == 0)
                return config_wrong(
                        reader, value,
                        "%snetwork must be \"none\", \"loopback\" or {\"allow\": [\"api.example.com:443\", \"*.example.org\"]}",
                        where);
        profile->network = CONFIG_NETWORK_ALLOW;
        return read_egress(reader, where, value, &profile->egress);
}

void config_egress_done(struct config_egress *egress)
{
        config_list_free(egress->allow);
        *egress = (struct config_egress){};
}
