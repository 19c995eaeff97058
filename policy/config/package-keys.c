/* "packages" and "libraries" of a profile. */
#include "policy/config/package-keys.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

/* One requirement: a name, and specifiers that are compared with the version. */
static const char *allowed_wrong(const char *text)
{
        struct error why = {};
        const char *list = text, *word = NULL;
        size_t n = 0;

        if (package_check(text, &why) < 0 || strpbrk(text, "[;()"))
                return "must be a package's name, with a version if need be, such as \"numpy>=2\"";
        package_next(&list, &word, &n);
        return package_next(&list, &word, &n) ? "names two packages: write two items" : NULL;
}

int config_check_allowed_packages(struct config_reading *r, const struct config_key *key,
                                  yyjson_val *value)
{
        char *const *list = *(char ***)config_member(key, r->into);

        if (!list[0])
                return config_mistake(
                        r, value,
                        "allow names no package: leave it out to allow every package, or write \"install\": \"never\"");
        for (size_t i = 0; list[i]; i++) {
                const char *why = allowed_wrong(list[i]);
                if (why)
                        return config_mistake(r, yyjson_arr_get(value, i), "allow: item %zu %s",
                                              i + 1, why);
        }
        return 0;
}

int config_check_npm(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        char *const *list = *(char ***)config_member(key, r->into);

        for (size_t i = 0; list[i]; i++) {
                struct error why = {};
                if (npm_check(list[i], &why) < 0 || strchr(list[i], ','))
                        return config_mistake(
                                r, yyjson_arr_get(value, i),
                                "%s: item %zu must be a package of npm, with versions if need be, such as \"lodash@^4\"",
                                key->name, i + 1);
        }
        return 0;
}

int config_check_allowed_npm(struct config_reading *r, const struct config_key *key,
                             yyjson_val *value)
{
        if (yyjson_arr_size(value) == 0)
                return config_mistake(
                        r, value,
                        "allow_npm names no package: leave it out to allow every package, or write \"install\": \"never\"");
        return config_check_npm(r, key, value);
}

int config_check_libraries(struct config_reading *r, const struct config_key *key,
                           yyjson_val *value)
{
        char *const *list = *(char ***)config_member(key, r->into);

        for (size_t i = 0; list[i]; i++) {
                struct error why = {};
                if (package_check(list[i], &why) < 0)
                        return config_mistake(r, yyjson_arr_get(value, i), "%s: item %zu: %s",
                                              key->name, i + 1, why.text);
        }
        return 0;
}

static bool is_one_word(const char *text)
{
        for (const char *c = text; *c; c++)
                if ((unsigned char)*c <= ' ' || *c == 0x7f)
                        return false;
        return strlen(text) <= CONFIG_PACKAGES_INDEX_MAX;
}

static bool is_url(const char *text)
{
        return is_one_word(text) &&
               (strncmp(text, "https://", 8) == 0 || strncmp(text, "http://", 7) == 0 ||
                strncmp(text, "${", 2) == 0);
}

int config_check_registry(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        if (is_url(*(char **)config_member(key, r->into)))
                return 0;
        return config_mistake(
                r, value,
                "registry must be the url of a registry of npm, such as \"https://registry.npmjs.org\"");
}

int config_check_index(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        const char *text = *(char **)config_member(key, r->into);

        if (is_url(text) || (is_one_word(text) && strncmp(text, "file:///", 8) == 0))
                return 0;
        return config_mistake(
                r, value,
                "index must be the url of a package index, such as \"https://pypi.org/simple\"");
}

/* "14d", "2w", "36h", or a date, as "2026-01-31". */
static bool is_age_or_date(const char *text)
{
        size_t digits = strspn(text, "0123456789");

        if (digits > 0 && digits <= 5 && strchr("hdw", text[digits]) && text[digits] != '\0')
                return text[digits + 1] == '\0';
        for (size_t i = 0; i < 10; i++)
                if (i == 4 || i == 7 ? text[i] != '-' : !isdigit((unsigned char)text[i]))
                        return false;
        return text[10] == '\0';
}

int config_check_age(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        if (is_age_or_date(*(char **)config_member(key, r->into)))
                return 0;
        return config_mistake(
                r, value,
                "exclude_newer must be an age such as \"14d\", \"2w\" or \"36h\", or a date such as \"2026-01-31\"");
}

void config_profile_libraries(const struct config_profile *profile, struct package_set *ret)
{
        bool npm = profile->language == LANGUAGE_JAVASCRIPT;
        char *const *list = npm ? profile->libraries.npm : profile->libraries.python;
        const char **to = npm ? ret->npm : ret->with;
        size_t n = 0;

        static_assert((int)CONFIG_LIBRARIES_MAX <= (int)PACKAGE_WITH_MAX, "all fit");
        for (; list && list[n]; n++)
                to[n] = list[n];
        *(npm ? &ret->n_npm : &ret->n_with) = n;
}
