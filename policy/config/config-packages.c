/* The key "packages" of a profile. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/config/config-internal.h"
#include "policy/config/config-profile.h"
#include "policy/package-set.h"

#define MIB       (1024ull * 1024)
#define AT(field) offsetof(struct config_packages, field)

static const char *const names[] = {"install",       "allow",   "index", "max_size",
                                    "exclude_newer", "timeout", NULL};
static const struct config_key size_key = {"max_size", CONFIG_BYTES, AT(max_bytes), MIB,
                                           1024 * 1024 * MIB};
static const struct config_key timeout_key = {"timeout", CONFIG_TIME, AT(timeout_ms), 1000,
                                              3600000};

struct packages_reading {
        struct config_reader *reader;
        struct config_packages *packages;
        const char *where; /* "packages." after the profile */
};

void config_packages_init(struct config_packages *p)
{
        *p = (struct config_packages){.max_bytes = 500 * MIB, .timeout_ms = 600000};
}

void config_packages_done(struct config_packages *p)
{
        config_list_free(p->allow);
        free(p->index);
        free(p->exclude_newer);
        *p = (struct config_packages){};
}

int config_packages_copy(const struct config_packages *from, struct config_packages *to)
{
        struct config_packages copy = {.install = from->install,
                                       .max_bytes = from->max_bytes,
                                       .timeout_ms = from->timeout_ms};

        if ((from->index && config_set_text(&copy.index, from->index) < 0) ||
            (from->exclude_newer &&
             config_set_text(&copy.exclude_newer, from->exclude_newer) < 0) ||
            config_list_copy(&copy.allow, from->allow) < 0) {
                config_packages_done(&copy);
                return -ENOMEM;
        }
        *to = copy;
        return 0;
}

static int read_install(const struct packages_reading *r, yyjson_val *value)
{
        const char *text = config_text(value);

        r->packages->install = text && strcmp(text, "allow") == 0;
        if (!r->packages->install && (!text || strcmp(text, "never") != 0))
                return config_wrong(r->reader, value, "%sinstall must be \"never\" or \"allow\"",
                                    r->where);
        return 0;
}

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

static int read_allow(const struct packages_reading *r, yyjson_val *value)
{
        struct config_complaint bad = {};

        int error = config_read_names(value, "allow", CONFIG_PACKAGES_ALLOW_MAX,
                                      &r->packages->allow, &bad);
        if (error == -ENOMEM)
                return config_no_memory(r->reader);
        if (*bad.text)
                return config_wrong(r->reader, bad.at, "%s%s", r->where, bad.text);
        if (!r->packages->allow[0])
                return config_wrong(
                        r->reader, value,
                        "%sallow names no package: leave it out to allow every package, or say \"install\": \"never\"",
                        r->where);
        for (size_t i = 0; r->packages->allow[i]; i++) {
                const char *why = allowed_wrong(r->packages->allow[i]);
                if (why)
                        return config_wrong(r->reader, yyjson_arr_get(value, i),
                                            "%sallow: item %zu %s", r->where, i + 1, why);
        }
        return 0;
}

static int read_index(const struct packages_reading *r, yyjson_val *value)
{
        const char *text = config_text(value);
        bool good = text && strlen(text) <= CONFIG_PACKAGES_INDEX_MAX &&
                    (strncmp(text, "https://", 8) == 0 || strncmp(text, "http://", 7) == 0 ||
                     strncmp(text, "file:///", 8) == 0 || strncmp(text, "${", 2) == 0);

        for (const char *c = text; good && *c; c++)
                good = (unsigned char)*c > ' ' && *c != 0x7f;
        if (!good)
                return config_wrong(
                        r->reader, value,
                        "%sindex must be the url of a package index, such as \"https://pypi.org/simple\"",
                        r->where);
        return config_set_text(&r->packages->index, text) < 0 ? config_no_memory(r->reader) : 0;
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

static int read_exclude_newer(const struct packages_reading *r, yyjson_val *value)
{
        const char *text = config_text(value);

        if (!text || !is_age_or_date(text))
                return config_wrong(
                        r->reader, value,
                        "%sexclude_newer must be an age such as \"14d\", \"2w\" or \"36h\", or a date such as \"2026-01-31\"",
                        r->where);
        return config_set_text(&r->packages->exclude_newer, text) < 0 ? config_no_memory(r->reader)
                                                                      : 0;
}

static int read_member(const struct packages_reading *r, const char *inside, yyjson_val *name,
                       yyjson_val *value)
{
        const char *key = yyjson_get_str(name);

        if (strcmp(key, "install") == 0)
                return read_install(r, value);
        if (strcmp(key, "allow") == 0)
                return read_allow(r, value);
        if (strcmp(key, "index") == 0)
                return read_index(r, value);
        if (strcmp(key, "max_size") == 0)
                return config_read_value(r->reader, &size_key, r->where, value, r->packages);
        if (strcmp(key, "timeout") == 0)
                return config_read_value(r->reader, &timeout_key, r->where, value, r->packages);
        if (strcmp(key, "exclude_newer") == 0)
                return read_exclude_newer(r, value);
        return config_warn_unknown(r->reader, inside, name, names);
}

int config_read_packages(struct config_reader *reader, const char *where, yyjson_val *object,
                         struct config_packages *ret)
{
        char dotted[CONFIG_NAME_MAX], inside[CONFIG_NAME_MAX];
        yyjson_obj_iter iter = yyjson_obj_iter_with(object);
        yyjson_val *name;
        int error = 0;

        if (!yyjson_is_obj(object))
                return config_wrong(
                        reader, object,
                        "%spackages must be an object: {\"install\": \"allow\", \"allow\": [\"numpy\"]}",
                        where);
        snprintf(dotted, sizeof(dotted), "%spackages.", where);
        snprintf(inside, sizeof(inside), "%spackages: ", where);
        config_packages_done(ret);
        config_packages_init(ret);
        const struct packages_reading r = {reader, ret, dotted};
        while (error >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                error = config_check_twice(reader, inside, object, name);
                if (error >= 0)
                        error = read_member(&r, inside, name, yyjson_obj_iter_get_val(name));
        }
        return error;
}
