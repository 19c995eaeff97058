/* The keys at the top level of a config file. */
#include "policy/config/file-keys.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "policy/image.h"

enum { WHERE_MAX = 256 };

static int read_profile(struct config_reading *r, const char *name, yyjson_val *object)
{
        char where[WHERE_MAX];

        snprintf(where, sizeof(where), "profile \"%s\": ", name);
        if (!yyjson_is_obj(object))
                return config_wrong(r->reader, object, "%smust be an object", where);
        struct config_profile *profile = config_profile_named(r->reader->into, name);
        if (!profile)
                return config_no_memory(r->reader);
        struct config_reading inner = {.reader = r->reader,
                                       .codes = r->codes,
                                       .into = profile,
                                       .profile = profile,
                                       .where = where,
                                       .path = ""};
        return config_read_members(&inner, CONFIG_PROFILE, object);
}

int config_read_profiles(struct config_reading *r, const struct config_key *key,
                         yyjson_val *profiles)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(profiles);
        yyjson_val *name;
        int e = 0;

        if (!yyjson_is_obj(profiles) || yyjson_obj_size(profiles) >= CONFIG_PROFILES_MAX)
                return config_mistake(
                        r, profiles,
                        "profiles must be an object of at most %d profiles: {\"NAME\": {…}}",
                        CONFIG_PROFILES_MAX - 1);
        while (e >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                const char *text = config_text(name);
                e = config_check_twice(r->reader, "profiles: ", profiles, name);
                if (e >= 0 && (!text || !image_name_valid(text)))
                        e = config_mistake(
                                r, name,
                                "profiles: a profile's name is 1 to 64 letters, digits, _ . - and begins with no dot");
                else if (e >= 0)
                        e = read_profile(r, text, yyjson_obj_iter_get_val(name));
        }
        return e;
}

int config_read_profile(struct config_reading *r, const struct config_key *key, yyjson_val *profile)
{
        const char *name = config_text(profile);

        if (!name || !image_name_valid(name))
                return config_mistake(r, profile, "profile must be the name of a profile");
        return config_refer(r->reader, CONFIG_PROFILE_OF_ALL, NULL, name, profile);
}

static int read_client(struct config_reading *r, yyjson_val *client, yyjson_val *profile)
{
        const char *from = config_text(client), *to = config_text(profile);

        if (!from || *from == '\0' || strlen(from) > CONFIG_NAME_MAX)
                return config_mistake(r, client, "clients: a client's name is 1 to %d bytes long",
                                      CONFIG_NAME_MAX);
        if (!to || !image_name_valid(to))
                return config_mistake(r, profile, "clients: %s must be the name of a profile",
                                      from);
        return config_refer(r->reader, CONFIG_PROFILE_OF_CLIENT, from, to, profile);
}

int config_read_clients(struct config_reading *r, const struct config_key *key, yyjson_val *clients)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(clients);
        yyjson_val *name;
        int e = 0;

        if (!yyjson_is_obj(clients) || yyjson_obj_size(clients) > CONFIG_CLIENTS_MAX)
                return config_mistake(
                        r, clients,
                        "clients must be an object of at most %d clients: {\"CLIENT\": \"PROFILE\"}",
                        CONFIG_CLIENTS_MAX);
        while (e >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                e = config_check_twice(r->reader, "clients: ", clients, name);
                if (e >= 0)
                        e = read_client(r, name, yyjson_obj_iter_get_val(name));
        }
        return e;
}

int config_read_id_range(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        struct config *config = r->into;
        int64_t first = 0, count = 0;

        if (!yyjson_is_arr(value) || yyjson_arr_size(value) != 2 ||
            json_int64(yyjson_arr_get_first(value), &first) < 0 ||
            json_int64(yyjson_arr_get_last(value), &count) < 0)
                return config_mistake(r, value,
                                      "id_range must be [first id, how many], as [200000, 1024]");
        /* 2^32 - 1 means "no id", and no sandbox may use host uid 0. */
        if (first < 1 || count < 1 || first >= UINT32_MAX || count > UINT32_MAX - first)
                return config_mistake(r, value, "id_range must lie within the ids 1 to 4294967294");
        config->id_first = (uint32_t)first;
        config->id_count = (uint32_t)count;
        return 0;
}

int config_read_nothing(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        return 0;
}

int config_read_file(struct config_reader *reader, config_code_fn *const *codes, yyjson_val *root)
{
        struct config *into = reader->into;
        struct config_reading r = {.reader = reader,
                                   .codes = codes,
                                   .into = into,
                                   .profile = &into->top,
                                   .where = "",
                                   .path = ""};

        if (!yyjson_is_obj(root))
                return config_wrong(reader, NULL,
                                    "the config must be an object: {\"mcpServers\": …}");
        int e = config_read_members(&r, CONFIG_TOP, root);
        if (e >= 0 && into->cell_timeout_ms > into->cell_timeout_max_ms)
                return config_wrong(reader, yyjson_obj_get(root, "timeout"),
                                    "timeout is %g s, above timeout_max, which is %g s: set both",
                                    into->cell_timeout_ms / 1000.0,
                                    into->cell_timeout_max_ms / 1000.0);
        return e;
}
