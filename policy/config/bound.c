/* Values of the user's files bound the settings from outside. */
#include "policy/config/bound.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "policy/config/keys.h"
#include "policy/config/network-keys.h"

/* The number of a row among those of the top level. */
static uint64_t bit_of(const struct config_key *key)
{
        return UINT64_C(1) << (key - config_next_key(CONFIG_TOP, NULL));
}

static bool is_bounded(const struct config_key *key)
{
        return key->place == CONFIG_TOP && config_is_number(key) && key->kind != CONFIG_WORDS &&
               key->name;
}

uint64_t config_said(yyjson_val *root)
{
        uint64_t said = 0;

        for (const struct config_key *key = NULL; (key = config_next_key(CONFIG_TOP, key));)
                if (is_bounded(key) && yyjson_obj_get(root, key->name))
                        said |= bit_of(key);
        return said;
}

static int lower(struct config *config, const struct config_key *key, const void *bound,
                 void *value, const char *name)
{
        uint64_t most = config_number(key, bound);
        char *text = NULL;

        if (config_number(key, value) <= most)
                return 0;
        config_set_number(key, value, most);
        int r = asprintf(&text, "%s: %s: the config allows less, and its value is used", name,
                         key->name);
        return config_add_warning(config, r < 0 ? NULL : text);
}

/* Each host must be one that the config allows, as it is written there. */
static int check_network(const struct config_profile *bound, const struct config_profile *to,
                         const char *name, struct error *err)
{
        for (size_t i = 0; to->egress.allow && to->egress.allow[i]; i++) {
                char *const *host = bound->network == CONFIG_NETWORK_ALLOW ? bound->egress.allow
                                                                           : NULL;
                while (host && *host && strcmp(*host, to->egress.allow[i]) != 0)
                        host++;
                if (host && *host)
                        continue;
                return error_set(
                        err, EPERM,
                        "%s: the config's \"network\" does not allow %s: add it there, or leave \"network\" out there",
                        name, to->egress.allow[i]);
        }
        if (to->network > bound->network)
                return error_set(err, EPERM, "%s: the config's \"network\" allows no network",
                                 name);
        return 0;
}

static uint64_t bit_named(const char *name)
{
        enum config_form form;

        return config_key_bit(config_find_key(CONFIG_PROFILE, name, &form));
}

int config_bound(struct config *before, struct config *settings, const char *name,
                 struct error *err)
{
        struct config_profile *to = &settings->top;
        int r = 0;

        for (const struct config_key *key = NULL; (key = config_next_key(CONFIG_TOP, key));)
                if (r >= 0 && is_bounded(key) && before->said & settings->said & bit_of(key))
                        r = lower(before, key, before, settings, name);
        for (const struct config_key *key = NULL; (key = config_next_key(CONFIG_LIMITS, key));) {
                uint64_t bit = config_key_bit(key);
                if (r < 0 || !(to->said & bit))
                        continue;
                if (before->said_profile & bit)
                        r = lower(before, key, &before->top.limits, &to->limits, name);
                for (size_t i = 0; i < before->n_profiles; i++) {
                        struct config_profile *p = &before->profiles[i];
                        if (p->said & bit &&
                            config_number(key, &p->limits) > config_number(key, &to->limits))
                                config_set_number(key, &p->limits, config_number(key, &to->limits));
                }
        }
        if (r >= 0 && to->said & before->said_profile & bit_named("network")) {
                r = check_network(&before->top, to, name, err);
                if (r >= 0)
                        r = config_inspect_also(&before->top.egress, &to->egress);
                /* The bounds of bytes stay those of the config. */
                to->egress.max_bytes = before->top.egress.max_bytes;
                to->egress.rate = before->top.egress.rate;
        }
        return r < 0 && !error_is_set(err) ? error_errno(err, -r, "%s", name) : r;
}
