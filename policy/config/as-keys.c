/* The object "as" of a table: the options and the variables of another system. */
#include "policy/config/as-keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"

enum { WHERE_MAX = 128 };

/* Any value, kept as the text of its JSON. */
int config_keep_json(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        char **to = config_member(key, r->into);
        size_t n = 0;

        free(take_ptr(*to));
        return json_write(value, to, &n) < 0 ? config_no_memory(r->reader) : 0;
}

/* Each key is a JSON Pointer (RFC 6901) into the config, which may begin with {SETTING}, or the name of an option of Cloister. */
int config_check_pointers(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        static const char *const options[] = {"--log-file", "--log-format", "--log-level",
                                              "--servers-from"};
        char *const *list = *(char ***)config_member(key, r->into);
        int e = 0;

        for (size_t i = 0; e >= 0 && list[i]; i++) {
                bool good = (list[i][0] == '/' || list[i][0] == '{') && list[i][1] != '\0';
                for (size_t j = 0; j < ARRAY_SIZE(options); j++)
                        good |= strcmp(list[i], options[j]) == 0;
                if (!good)
                        e = config_mistake(
                                r, yyjson_arr_get(value, i),
                                "keys: item %zu must be a path such as \"/limits/memory\", or --log-file, --log-format, --log-level or --servers-from",
                                i + 1);
        }
        return e;
}

static bool is_name(const char *name, bool is_option)
{
        size_t n = name ? strlen(name) : 0;

        if (n < 1 || n > CONFIG_NAME_MAX || strpbrk(name, "= \t\n\r"))
                return false;
        return is_option ? n > 2 && strncmp(name, "--", 2) == 0 : name[0] != '-';
}

static int read_setting(struct config_reading *r, yyjson_val *name, yyjson_val *value)
{
        struct config_as *as = r->into;
        char where[WHERE_MAX];
        struct config_setting *grown = reallocarray(as->settings, as->n_settings + 1,
                                                    sizeof(*grown));

        if (!grown)
                return config_no_memory(r->reader);
        as->settings = grown;
        struct config_setting *s = &grown[as->n_settings++];
        *s = (struct config_setting){.name = strdup(yyjson_get_str(name))};
        config_defaults(CONFIG_SETTING, s);
        if (!s->name)
                return config_no_memory(r->reader);
        if (yyjson_is_str(value)) {
                s->same_as = strdup(yyjson_get_str(value));
                return s->same_as ? 0 : config_no_memory(r->reader);
        }
        if (!yyjson_is_obj(value))
                return config_mistake(
                        r, value, "%s must be an object, or the name of the setting that it equals",
                        s->name);
        snprintf(where, sizeof(where), "as: %.100s: ", s->name);
        struct config_reading inner = *r;
        inner.into = s;
        inner.where = where;
        inner.path = "";
        inner.wrong = false;
        int e = config_read_members(&inner, CONFIG_SETTING, value);
        r->wrong |= inner.wrong;
        return e;
}

/* "options" and "environment": {"NAME": {…} or "OTHER"}. */
int config_read_settings(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        bool is_option = strcmp(key->name, "options") == 0;
        yyjson_obj_iter iter = yyjson_obj_iter_with(value);
        yyjson_val *name;
        int e = 0;

        if (!yyjson_is_obj(value) || yyjson_obj_size(value) > CONFIG_SETTINGS_MAX)
                return config_mistake(r, value, "%s must be an object of at most %d settings",
                                      key->name, CONFIG_SETTINGS_MAX);
        while (e >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                e = config_check_twice(r->reader, "as: ", value, name);
                if (e >= 0 && !is_name(config_text(name), is_option))
                        e = config_mistake(r, name, "%s: \"%.80s\" is not the name of %s",
                                           key->name, yyjson_get_str(name),
                                           is_option ? "an option (--NAME)" : "a variable");
                else if (e >= 0)
                        e = read_setting(r, name, yyjson_obj_iter_get_val(name));
        }
        return e;
}
