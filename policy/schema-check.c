/* Checks values against a JSON Schema. */
#include "policy/schema-check.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/utf8.h"

enum {
        DEPTH_MAX = 16,
        STEPS_MAX = 100 * 1000, /* more pass */
        PATH_MAX_SHOWN = 120,
};

struct place {
        const struct place *outer;
        const char *name; /* NULL: an item of a list */
        size_t index;
};

struct checker {
        unsigned steps;
        struct error *err; /* NULL: only whether it fits */
};

static const char *const types[] = {"null",   "boolean", "integer", "number",
                                    "string", "array",   "object"};

static bool is_of(yyjson_val *value, const char *type)
{
        double number = 0;

        if (strcmp(type, "integer") == 0)
                return json_is_number(value) && json_double(value, &number) >= 0 &&
                       floor(number) == number;
        if (strcmp(type, "number") == 0)
                return json_is_number(value);
        if (strcmp(type, "string") == 0)
                return yyjson_is_str(value);
        if (strcmp(type, "array") == 0)
                return yyjson_is_arr(value);
        if (strcmp(type, "object") == 0)
                return yyjson_is_obj(value);
        return strcmp(type, "boolean") == 0 ? yyjson_is_bool(value) : yyjson_is_null(value);
}

static const char *type_of(yyjson_val *value)
{
        size_t i = 0;

        while (i < ARRAY_SIZE(types) - 1 && !is_of(value, types[i]))
                i++;
        return types[i];
}

static size_t print_path(const struct place *place, char *to, size_t size)
{
        size_t n = place->outer ? print_path(place->outer, to, size) : 0;

        if (!place->outer || n >= size)
                return n;
        if (!place->name)
                return n + (size_t)snprintf(to + n, size - n, "[%zu]", place->index);
        return n + (size_t)snprintf(to + n, size - n, "%s%.60s", n > 0 ? "." : "", place->name);
}

__attribute__((format(printf, 3, 4))) static int refuse(const struct checker *c,
                                                        const struct place *place,
                                                        const char *format, ...)
{
        char path[PATH_MAX_SHOWN] = "", text[256];
        va_list args;

        if (!c->err)
                return -EINVAL;
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        if (place->outer)
                print_path(place, path, sizeof(path));
        utf8_trim(path);
        utf8_trim(text);
        return *path ? error_set(c->err, EINVAL, "argument \"%s\" %s", path, text)
                     : error_set(c->err, EINVAL, "the arguments %s", text);
}

static int check(struct checker *c, yyjson_val *value, yyjson_val *schema,
                 const struct place *place, unsigned depth);

/* "type" is a word or a list of words; unknown words pass. */
static bool fits_type(yyjson_val *value, yyjson_val *type, size_t *n_known)
{
        yyjson_val *one;
        size_t i, n;

        for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
                if (!yyjson_equals_str(type, types[t]))
                        continue;
                ++*n_known;
                return is_of(value, types[t]);
        }
        yyjson_arr_foreach (type, i, n, one) {
                if (yyjson_is_str(one) && fits_type(value, one, n_known))
                        return true;
        }
        return false;
}

static int check_type(struct checker *c, yyjson_val *value, yyjson_val *schema,
                      const struct place *place)
{
        yyjson_val *type = yyjson_obj_get(schema, "type");
        size_t n_known = 0;
        char text[128] = "of another type";

        if (!type || fits_type(value, type, &n_known) || n_known == 0)
                return 0;
        if (yyjson_is_str(type))
                snprintf(text, sizeof(text), "%s", yyjson_get_str(type));
        return refuse(c, place, "must be %s, not %s", text, type_of(value));
}

/* As JSON compares: 1 and 1.0 are equal. Numbers are kept as they are written. */
static bool equal(yyjson_val *a, yyjson_val *b)
{
        double x = 0, y = 1;

        if (json_is_number(a) && json_is_number(b))
                return json_double(a, &x) >= 0 && json_double(b, &y) >= 0 && x == y;
        return !json_is_number(a) && !json_is_number(b) && yyjson_equals(a, b);
}

static int check_enum(struct checker *c, yyjson_val *value, yyjson_val *schema,
                      const struct place *place)
{
        yyjson_val *list = yyjson_obj_get(schema, "enum"), *one,
                   *only = yyjson_obj_get(schema, "const");
        size_t i, n, used = 0;
        char names[160] = "";

        if (only && !equal(value, only))
                return refuse(c, place, "must have another value");
        if (!yyjson_is_arr(list))
                return 0;
        yyjson_arr_foreach (list, i, n, one) {
                if (equal(value, one))
                        return 0;
                if (yyjson_is_str(one) && used < sizeof(names))
                        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s\"%s\"",
                                                 used > 0 ? ", " : "", yyjson_get_str(one));
        }
        return refuse(c, place, used > 0 ? "must be one of %s" : "must have another value%s",
                      names);
}

/* A bound of a count or of a number. */
static int check_bounds(struct checker *c, double have, yyjson_val *schema, const char *least,
                        const char *most, const char *unit, const struct place *place)
{
        double bound = 0;

        if (json_double(yyjson_obj_get(schema, least), &bound) >= 0 && have < bound)
                return refuse(c, place, "must be at least %.15g%s", bound, unit);
        if (json_double(yyjson_obj_get(schema, most), &bound) >= 0 && have > bound)
                return refuse(c, place, "must be at most %.15g%s", bound, unit);
        return 0;
}

static int check_object(struct checker *c, yyjson_val *value, yyjson_val *schema,
                        const struct place *place, unsigned depth)
{
        yyjson_val *properties = yyjson_obj_get(schema, "properties"), *key, *one, *name;
        yyjson_val *required = yyjson_obj_get(schema, "required");
        bool is_closed = yyjson_is_false(yyjson_obj_get(schema, "additionalProperties"));
        size_t i, n;

        yyjson_arr_foreach (required, i, n, name) {
                const struct place inner = {place, yyjson_get_str(name), 0};
                if (yyjson_is_str(name) && !yyjson_obj_get(value, yyjson_get_str(name)))
                        return refuse(c, &inner, "is missing");
        }
        yyjson_obj_foreach (value, i, n, key, one) {
                const struct place inner = {place, yyjson_get_str(key), 0};
                yyjson_val *own = yyjson_obj_getn(properties, yyjson_get_str(key),
                                                  yyjson_get_len(key));
                bool is_needed = false;
                size_t j, m;

                if (!own && is_closed)
                        return refuse(c, &inner, "is unknown");
                yyjson_arr_foreach (required, j, m, name)
                        is_needed |= yyjson_equals(name, key);
                if (yyjson_is_null(one) && !is_needed)
                        continue;
                int r = own ? check(c, one, own, &inner, depth + 1) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

static int check_items(struct checker *c, yyjson_val *value, yyjson_val *schema,
                       const struct place *place, unsigned depth)
{
        yyjson_val *items = yyjson_obj_get(schema, "items"), *one;
        size_t i, n;

        int r = check_bounds(c, (double)yyjson_arr_size(value), schema, "minItems", "maxItems",
                             " items long", place);
        yyjson_arr_foreach (value, i, n, one) {
                const struct place inner = {place, NULL, i};
                if (r >= 0 && yyjson_is_obj(items))
                        r = check(c, one, items, &inner, depth + 1);
        }
        return r;
}

static int check_any(struct checker *c, yyjson_val *value, yyjson_val *schema,
                     const struct place *place, unsigned depth)
{
        yyjson_val *list = yyjson_obj_get(schema, "anyOf"), *one;
        struct checker silent = {c->steps, NULL};
        bool fits = yyjson_arr_size(list) == 0;
        size_t i, n;

        yyjson_arr_foreach (list, i, n, one)
                fits = fits || check(&silent, value, one, place, depth + 1) >= 0;
        c->steps = silent.steps;
        return fits ? 0 : refuse(c, place, "fits none of its types");
}

static int check(struct checker *c, yyjson_val *value, yyjson_val *schema,
                 const struct place *place, unsigned depth)
{
        double number = 0;
        int r;

        if (depth > DEPTH_MAX || ++c->steps > STEPS_MAX || !yyjson_is_obj(schema))
                return 0;
        r = check_type(c, value, schema, place);
        if (r >= 0)
                r = check_enum(c, value, schema, place);
        if (r >= 0 && yyjson_obj_get(schema, "anyOf"))
                r = check_any(c, value, schema, place, depth);
        if (r < 0)
                return r;
        if (yyjson_is_obj(value))
                return check_object(c, value, schema, place, depth);
        if (yyjson_is_arr(value))
                return check_items(c, value, schema, place, depth);
        if (yyjson_is_str(value))
                return check_bounds(
                        c, (double)utf8_count(yyjson_get_str(value), yyjson_get_len(value)), schema,
                        "minLength", "maxLength", " characters long", place);
        return json_is_number(value) && json_double(value, &number) >= 0
                       ? check_bounds(c, number, schema, "minimum", "maximum", "", place)
                       : 0;
}

int schema_check_arguments(yyjson_val *arguments, yyjson_val *schema, struct error *err)
{
        const struct place place = {};
        struct checker c = {0, err};

        return check(&c, arguments, schema, &place, 0);
}
